package sim

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// dice answers every question of chance in a run. An answer depends on the seed
// and on what is asked, never on how often something else was asked before: so
// the order in which goroutines run changes nothing about who is hit by what, and
// cutting an event out of a plan leaves the luck of the others as it was.
type dice struct{ seed uint64 }

// roll is a number that belongs to the words.
func (d dice) roll(words ...any) uint64 {
	h := fnv.New64a()
	var seed [8]byte
	binary.LittleEndian.PutUint64(seed[:], d.seed)
	_, _ = h.Write(seed[:])
	for _, word := range words {
		_, _ = fmt.Fprint(h, word, "\x00")
	}
	return rand.NewPCG(h.Sum64(), d.seed).Uint64() // FNV alone mixes its last bytes badly
}

// unit is a number from 0 to below 1.
func (d dice) unit(words ...any) float64 { return float64(d.roll(words...)>>11) / (1 << 53) }

// chance is true with probability p.
func (d dice) chance(p float64, words ...any) bool { return p > 0 && d.unit(words...) < p }

// below is a number from 0 to below n, and 0 where there is none.
func (d dice) below(n int, words ...any) int {
	if n <= 0 {
		return 0
	}
	return int(d.roll(words...) % uint64(n))
}

// between is a time from low to below high, to the nanosecond: two that belong to
// different words practically never are the same, and so nothing in a simulated
// world happens at the same moment as something else.
func (d dice) between(low, high time.Duration, words ...any) time.Duration {
	return low + time.Duration(d.unit(words...)*float64(high-low))
}
