/* Checks the port against vectors, or hashes a stream of ids.

   check FILE         the vectors as numbers, which `python -m ports` writes from the JSON; exit status 1 on a mismatch
   hash ORDERS        int32 ids on standard input, int64 hashes on standard output, both little-endian, in pieces */
#define _POSIX_C_SOURCE 199309L /* for clock_gettime */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "byte_fnv1a.h"

enum { PIECE = 65536, MOST_COLUMNS = 64 };

static void fail(const char *message) {
    fprintf(stderr, "%s\n", message);
    exit(2);
}

static void *reserve(size_t count, size_t size) {
    void *memory = malloc(count * size + 1);
    if (memory == NULL) fail("no memory");
    return memory;
}

static int64_t *numbers(FILE *file, size_t count) {
    int64_t *found = reserve(count, sizeof *found);
    for (size_t i = 0; i < count; i++)
        if (fscanf(file, "%" SCNd64, &found[i]) != 1) fail("the vectors end too early");
    return found;
}

static int check(const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) fail("the vectors cannot be opened");
    int64_t *cases = numbers(file, 1);
    int64_t mismatches = 0;
    for (int64_t number = 0; number < cases[0]; number++) {
        int64_t *head = numbers(file, 3);
        size_t length = (size_t)head[0], columns = (size_t)head[1], count = length * columns;
        int64_t *ids = numbers(file, length), *given = numbers(file, columns);
        int64_t *hashes = numbers(file, count), *rows = numbers(file, count);
        int64_t *found = reserve(count, sizeof *found);
        size_t *orders = reserve(columns, sizeof *orders);
        for (size_t c = 0; c < columns; c++) orders[c] = (size_t)given[c];
        if (engram_byte_fnv1a(ids, length, orders, columns, found) != 0) fail("an order is below 1");
        int differ = memcmp(found, hashes, count * sizeof *found);
        engram_rows(found, count, head[2], found);
        if (differ || memcmp(found, rows, count * sizeof *found)) {
            printf("mismatch in case %" PRId64 "\n", number);
            mismatches++;
        }
        free(head), free(ids), free(given), free(hashes), free(rows), free(found), free(orders);
    }
    printf("cases %" PRId64 ", mismatches %" PRId64 "\n", cases[0], mismatches);
    free(cases);
    fclose(file);
    return mismatches > 0;
}

static int hash(char *list) {
    size_t columns = 0, orders[MOST_COLUMNS], longest = 1, length = 0, room = PIECE;
    for (char *word = strtok(list, ","); word != NULL; word = strtok(NULL, ",")) {
        if (columns == MOST_COLUMNS) fail("more than 64 orders");
        orders[columns++] = strtoul(word, NULL, 10);
        if (orders[columns - 1] > longest) longest = orders[columns - 1];
    }
    int64_t *ids = reserve(room, sizeof *ids);
    for (unsigned char bytes[4]; fread(bytes, 4, 1, stdin) == 1; length++) {
        if (length == room && (ids = realloc(ids, (room *= 2) * sizeof *ids)) == NULL) fail("no memory");
        uint32_t word = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
        ids[length] = (int32_t)word;
    }
    double seconds = 0;
    int64_t *hashes = reserve((PIECE + longest) * columns, sizeof *hashes);
    for (size_t from = 0; from < length; from += PIECE) {
        size_t history = from < longest - 1 ? from : longest - 1;
        size_t count = length - from < PIECE ? length - from : PIECE;
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        if (engram_byte_fnv1a(ids + from - history, history + count, orders, columns, hashes) != 0)
            fail("an order is below 1");
        clock_gettime(CLOCK_MONOTONIC, &end);
        seconds += difftime(end.tv_sec, start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        for (size_t i = history * columns; i < (history + count) * columns; i++) {
            unsigned char bytes[8];
            for (int k = 0; k < 8; k++) bytes[k] = (unsigned char)((uint64_t)hashes[i] >> 8 * k);
            fwrite(bytes, 8, 1, stdout);
        }
    }
    fprintf(stderr, "seconds %.6f\n", seconds);
    free(ids), free(hashes);
    return 0;
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "check") == 0) return check(words[2]);
    if (count == 3 && strcmp(words[1], "hash") == 0) return hash(words[2]);
    fail("usage: check FILE | hash ORDERS");
}
