// Checks the port against vectors, or hashes a stream of ids.
//
//   check FILE     the vectors as JSON; exit status 1 on a mismatch
//   hash ORDERS    int32 ids on standard input, int64 hashes on standard output, both little-endian, in pieces

import { readFileSync, writeSync } from "node:fs";
import { endianness } from "node:os";

import { byteFnv1a, rows } from "./byte_fnv1a.mjs";

const PIECE = 65536;

function check(path) {
  // JSON.parse rounds what a double cannot hold, so long ids go through it as strings and become BigInts.
  const text = readFileSync(path, "utf8").replace(/-?\d{16,}/g, '"$&"');
  const exact = (value) => (typeof value === "string" ? BigInt(value) : value);
  const equal = (found, wanted) => found.length === wanted.length && wanted.every((n, i) => found[i] === BigInt(n));
  const { cases } = JSON.parse(text);
  let mismatches = 0;
  for (const [number, one] of cases.entries()) {
    const hashes = byteFnv1a(one.ids.map(exact), one.orders);
    const found = rows(hashes, one.entries);
    if (equal(hashes, one.hashes.flat()) && equal(found, one.rows.flat())) continue;
    console.log(`mismatch in case ${number}`);
    mismatches++;
  }
  console.log(`cases ${cases.length}, mismatches ${mismatches}`);
  process.exitCode = Math.min(mismatches, 1);
}

function hash(list) {
  const orders = list.split(",").map(Number);
  const given = readFileSync(0);
  const ids = Int32Array.from({ length: given.length / 4 }, (_, t) => given.readInt32LE(4 * t));
  let taken = 0n;
  for (let from = 0; from < ids.length; from += PIECE) {
    const history = Math.min(from, Math.max(...orders) - 1);
    const start = process.hrtime.bigint();
    const hashes = byteFnv1a(ids.subarray(from - history, from + PIECE), orders);
    taken += process.hrtime.bigint() - start;
    const bytes = Buffer.from(hashes.buffer).subarray(8 * history * orders.length);
    if (endianness() === "BE") bytes.swap64();
    for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
  }
  console.error(`seconds ${(Number(taken) / 1e9).toFixed(6)}`);
}

const [mode, word] = process.argv.slice(2);
if (mode === "check" && word) check(word);
else if (mode === "hash" && word) hash(word);
else throw new Error("usage: check FILE | hash ORDERS");
