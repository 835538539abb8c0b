package cache

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"nstance.dev/protos/identity"
)

// operators are the registrations of operators, which are the cluster's.
type operators struct {
	news *news

	mu      sync.RWMutex
	table   *table[identity.ID, Operator]
	byNonce map[string]identity.ID
}

// PutOperator sets an operator's registration. A nonce registers one operator:
// where another one has the same, nothing changes and the error is [ErrExists].
func (t *operators) PutOperator(o Operator) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if holder, ok := t.byNonce[o.NonceSHA256]; ok && holder != o.ID {
		return fmt.Errorf("operator %s: its nonce is that of operator %s: %w", o.ID, holder, ErrExists)
	}
	delete(t.byNonce, t.table.rows[o.ID].NonceSHA256)
	if o.NonceSHA256 != "" {
		t.byNonce[o.NonceSHA256] = o.ID
	}
	t.news.add(t.table.put(o.ID, o))
	return nil
}

// Operator returns an operator's registration.
func (t *operators) Operator(id identity.ID) (Operator, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	o, ok := t.table.rows[id]
	return o, ok
}

// Operators returns all operators.
func (t *operators) Operators() []Operator {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]Operator, 0, len(t.table.rows))
	for _, id := range slices.Sorted(maps.Keys(t.table.rows)) {
		out = append(out, t.table.rows[id])
	}
	return out
}

// DropOperator forgets an operator.
func (t *operators) DropOperator(id identity.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byNonce, t.table.rows[id].NonceSHA256)
	t.news.add(t.table.drop(id))
}
