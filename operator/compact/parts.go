package compact

import (
	"crypto/sha256"
	"runtime"
	"sync"
	"weak"
)

// parts keeps one copy of each value that many objects have, for as long as any of them has it. It is safe for
// concurrent use.
type parts[T any] struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]weak.Pointer[T]
}

func newParts[T any]() *parts[T] { return &parts[T]{all: map[[sha256.Size]byte]weak.Pointer[T]{}} }

// of returns the copy that is equal to a value, and keeps the value if there is none. raw says all that is in the
// value: two values are equal if theirs is.
func (p *parts[T]) of(value T, raw []byte) *T {
	key := sha256.Sum256(raw)
	p.mu.Lock()
	defer p.mu.Unlock()
	if kept := p.all[key].Value(); kept != nil {
		return kept
	}
	kept := new(T) // and not the address of value, which would then be made for each object
	*kept = value
	p.all[key] = weak.Make(kept)
	runtime.AddCleanup(kept, p.forget, key)
	return kept
}

// forget drops the entry of a value that no object has any more, unless an equal one has come since.
func (p *parts[T]) forget(key [sha256.Size]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[key].Value() == nil {
		delete(p.all, key)
	}
}

func (p *parts[T]) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}
