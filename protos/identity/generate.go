package identity

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"
)

// maxSetback is how far the clock may step back before new ids follow it.
// Within it, ids keep counting from the latest moment seen.
const maxSetback = 10 * time.Second

const maxSequence = 1<<12 - 1

// Generator makes ids that sort in the order in which they were made, also
// within one millisecond. The zero value is ready. A Generator is safe for
// concurrent use and must not be copied.
//
// More than 4,000 ids in a millisecond borrow from the milliseconds to come. A
// clock that steps back by up to ten seconds does not break the order; after a
// longer step the ids follow the clock, because a creation time in the future
// would do more harm than two ids out of order.
type Generator struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Rand gives the random bits; nil means crypto/rand.Reader.
	Rand io.Reader

	mu       sync.Mutex
	last     int64  // milliseconds in the id made last
	sequence uint16 // 12 bits, in the id made last
}

var defaultGenerator Generator

// NewID returns a new id with the given prefix from the process's own
// [Generator]. It fails for an invalid prefix only.
func NewID(prefix string) (ID, error) { return defaultGenerator.NewID(prefix) }

// NewID returns an id that no other call anywhere returns, and that is greater
// than those of the same prefix made before. It fails for an invalid prefix, or
// when Rand does.
func (g *Generator) NewID(prefix string) (ID, error) {
	if !ValidPrefix(prefix) {
		return "", fmt.Errorf("%w: prefix %s is not three letters of a to z", ErrID, quote(prefix))
	}
	var u uuid.UUID
	if _, err := io.ReadFull(g.rand(), u[6:]); err != nil {
		return "", fmt.Errorf("new id: read random bits: %w", err)
	}
	// The counter of a new millisecond starts at a random place in its lower half.
	ms, sequence := g.next(binary.BigEndian.Uint16(u[6:8]) & (maxSequence >> 1))
	binary.BigEndian.PutUint64(u[:8], uint64(ms)<<16|0x7000|uint64(sequence))
	u[8] = u[8]&0x3f | 0x80
	return FromUUID(prefix, u)
}

// next advances the pair (millisecond, sequence), which never repeats.
func (g *Generator) next(start uint16) (ms int64, sequence uint16) {
	now := time.Now
	if g.Now != nil {
		now = g.Now
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	ms = now().UnixMilli()
	switch {
	case ms > g.last || g.last-ms > maxSetback.Milliseconds():
		g.last, g.sequence = ms, start
	case g.sequence < maxSequence:
		g.sequence++
	default:
		g.last, g.sequence = g.last+1, start
	}
	return g.last, g.sequence
}

func (g *Generator) rand() io.Reader {
	if g.Rand != nil {
		return g.Rand
	}
	return rand.Reader
}
