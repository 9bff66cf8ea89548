// Package engram has the hash byte_fnv1a: 32-bit FNV-1a over the last symbols of each position.
// docs/spec/addressing.md has the arithmetic.
package engram

import "slices"

// ByteFNV1a gives the hashes before the remainder, [len(ids), len(orders)] row by row: column c at position t has that
// of the last orders[c] symbols, or 0 where there are fewer. It panics where an order is below 1.
func ByteFNV1a(ids []int64, orders []int) []int64 {
	if slices.ContainsFunc(orders, func(order int) bool { return order < 1 }) {
		panic("byte_fnv1a: an order is below 1")
	}
	hashes := make([]int64, len(ids)*len(orders))
	for t := range ids {
		for c, order := range orders {
			if t+1 < order {
				continue // stays 0, the null row
			}
			h := 0x811C9DC5 ^ uint32(c+1)
			for _, id := range ids[t+1-order : t+1] {
				h = (h ^ uint32(uint8(id-3))) * 0x01000193
			}
			hashes[t*len(orders)+c] = int64(max(h, 1))
		}
	}
	return hashes
}

// Rows gives the rows of a table of that many entries.
func Rows(hashes []int64, entries int64) []int64 {
	rows := make([]int64, len(hashes))
	for i, hash := range hashes {
		rows[i] = hash % entries
	}
	return rows
}
