/* byte_fnv1a: 32-bit FNV-1a over the last symbols of each position. docs/spec/addressing.md has the arithmetic.
   C99; this header is all that there is. */
#ifndef ENGRAM_BYTE_FNV1A_H
#define ENGRAM_BYTE_FNV1A_H

#include <stddef.h>
#include <stdint.h>

/* Hashes before the remainder: hashes[t * columns + c] is that of the last orders[c] symbols at position t, and 0
   where there are fewer. Returns 0; or -1, with nothing written, where an order is 0. */
static inline int engram_byte_fnv1a(const int64_t *ids, size_t length, const size_t *orders, size_t columns,
                                    int64_t *hashes) {
    for (size_t c = 0; c < columns; c++)
        if (orders[c] == 0) return -1;
    for (size_t t = 0; t < length; t++) {
        for (size_t c = 0; c < columns; c++) {
            uint32_t h = 0x811C9DC5u ^ (uint32_t)(c + 1);
            hashes[t * columns + c] = 0; /* the null row */
            if (t + 1 < orders[c]) continue;
            for (size_t i = t + 1 - orders[c]; i <= t; i++) {
                uint8_t symbol = (uint8_t)((uint64_t)ids[i] - 3); /* unsigned: the least int64 minus 3 wraps */
                h = (h ^ symbol) * 0x01000193u;
            }
            hashes[t * columns + c] = h == 0 ? 1 : h;
        }
    }
    return 0;
}

/* Rows of a table of `entries` rows, at least one, from hashes; the two may be one array. */
static inline void engram_rows(const int64_t *hashes, size_t count, int64_t entries, int64_t *rows) {
    for (size_t i = 0; i < count; i++) rows[i] = hashes[i] % entries;
}

#endif
