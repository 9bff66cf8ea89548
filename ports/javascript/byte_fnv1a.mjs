// byte_fnv1a: 32-bit FNV-1a over the last symbols of each position. docs/spec/addressing.md has the arithmetic.

// Which half of a 64-bit number holds its low bits: the first, but on big-endian machines.
const LOW = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1 ? 0 : 1;

/** Hashes before the remainder, [T, K] row by row; the types and the rest are told in byte_fnv1a.d.mts. */
export function byteFnv1a(ids, orders) {
  if (!Array.from(orders).every((n) => Number.isSafeInteger(n) && n > 0)) throw new RangeError("an order is below 1");
  const symbols = new Uint8Array(ids.length);
  for (let t = 0; t < ids.length; t++) {
    const exact = typeof ids[t] === "bigint" || Number.isSafeInteger(ids[t]);
    if (!exact) throw new RangeError(`id ${ids[t]} is no exact integer; beyond 2^53 it must be a BigInt`);
    symbols[t] = typeof ids[t] === "bigint" ? Number(BigInt.asUintN(8, ids[t] - 3n)) : (ids[t] - 3) & 0xff;
  }
  const hashes = new BigInt64Array(symbols.length * orders.length);
  const halves = new Uint32Array(hashes.buffer); // BigInts would make the loop slow
  for (let t = 0, at = LOW; t < symbols.length; t++) {
    for (let c = 0; c < orders.length; c++, at += 2) {
      if (t + 1 < orders[c]) continue; // stays 0, the null row
      let h = 0x811c9dc5 ^ (c + 1);
      for (let i = t + 1 - orders[c]; i <= t; i++) h = Math.imul(h ^ symbols[i], 0x01000193);
      halves[at] = h >>> 0 || 1;
    }
  }
  return hashes;
}

/** Rows of a table of that many entries, from hashes. */
export function rows(hashes, entries) {
  if (!Number.isSafeInteger(entries) || entries < 1) throw new RangeError(`a table cannot have ${entries} rows`);
  const found = new BigInt64Array(hashes.length);
  const from = new Uint32Array(hashes.buffer, hashes.byteOffset, 2 * hashes.length);
  const to = new Uint32Array(found.buffer);
  for (let i = LOW; i < from.length; i += 2) to[i] = from[i] % entries;
  return found;
}
