/**
 * Hashes before the remainder, as a graph's input carries them: 0 or 1 … 2^32 - 1.
 *
 * @param ids Any integers, oldest first; beyond 2^53 they must be BigInts, which a number cannot hold.
 * @param orders The n-gram length of each column, from 1 on.
 * @returns [T, K] row by row: column c at position t has the hash of the last `orders[c]` symbols, or 0 where there are
 *   fewer. ONNX Runtime takes it as the data of an int64 tensor.
 * @throws RangeError An order is below 1, or an id is no integer.
 */
export function byteFnv1a(ids: ArrayLike<number | bigint>, orders: ArrayLike<number>): BigInt64Array;

/**
 * Rows of a table, from hashes.
 *
 * @param hashes What `byteFnv1a` gave.
 * @param entries Rows of the table, from 1 on.
 * @throws RangeError `entries` is no integer from 1 on.
 */
export function rows(hashes: BigInt64Array, entries: number): BigInt64Array;
