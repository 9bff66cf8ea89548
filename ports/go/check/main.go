// Checks the port against vectors, or hashes a stream of ids.
//
//	check FILE     the vectors as JSON; exit status 1 on a mismatch
//	hash ORDERS    int32 ids on standard input, int64 hashes on standard output, both little-endian, in pieces
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"engram"
)

const piece = 65536

type vectors struct {
	Cases []struct {
		IDs     []int64
		Orders  []int
		Entries int64
		Hashes  [][]int64
		Rows    [][]int64
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func check(path string) int {
	text, err := os.ReadFile(path)
	must(err)
	var given vectors
	must(json.Unmarshal(text, &given))
	mismatches := 0
	for number, one := range given.Cases {
		hashes := engram.ByteFNV1a(one.IDs, one.Orders)
		rows := engram.Rows(hashes, one.Entries)
		if !slices.Equal(hashes, slices.Concat(one.Hashes...)) || !slices.Equal(rows, slices.Concat(one.Rows...)) {
			fmt.Printf("mismatch in case %d\n", number)
			mismatches++
		}
	}
	fmt.Printf("cases %d, mismatches %d\n", len(given.Cases), mismatches)
	return min(mismatches, 1)
}

func hash(list string) {
	var orders []int
	for _, word := range strings.Split(list, ",") {
		order, err := strconv.Atoi(word)
		must(err)
		orders = append(orders, order)
	}
	given, err := io.ReadAll(os.Stdin)
	must(err)
	ids := make([]int64, len(given)/4)
	for t := range ids {
		ids[t] = int64(int32(binary.LittleEndian.Uint32(given[4*t:])))
	}
	var taken time.Duration
	for from := 0; from < len(ids); from += piece {
		history := min(from, slices.Max(orders)-1)
		start := time.Now()
		hashes := engram.ByteFNV1a(ids[from-history:min(from+piece, len(ids))], orders)
		taken += time.Since(start)
		must(binary.Write(os.Stdout, binary.LittleEndian, hashes[history*len(orders):]))
	}
	fmt.Fprintf(os.Stderr, "seconds %.6f\n", taken.Seconds())
}

func main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "check":
		os.Exit(check(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "hash":
		hash(os.Args[2])
	default:
		must(fmt.Errorf("usage: check FILE | hash ORDERS"))
	}
}
