package cache

import (
	"fmt"
	"maps"
	"slices"

	"nstance.dev/protos/identity"
)

// PutOperator sets an operator's registration. A nonce registers one operator:
// where another one has the same, nothing changes and the error is [ErrExists].
func (c *Cache) PutOperator(o Operator) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if holder, ok := c.opNonce[o.NonceSHA256]; ok && holder != o.ID {
		return fmt.Errorf("operator %s: its nonce is that of operator %s: %w", o.ID, holder, ErrExists)
	}
	delete(c.opNonce, c.t.operators.rows[o.ID].NonceSHA256)
	if o.NonceSHA256 != "" {
		c.opNonce[o.NonceSHA256] = o.ID
	}
	c.news(c.t.operators.put(o.ID, o))
	return nil
}

// Operator returns an operator's registration.
func (c *Cache) Operator(id identity.ID) (Operator, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	o, ok := c.t.operators.rows[id]
	return o, ok
}

// Operators returns all operators.
func (c *Cache) Operators() []Operator {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]Operator, 0, len(c.t.operators.rows))
	for _, id := range slices.Sorted(maps.Keys(c.t.operators.rows)) {
		out = append(out, c.t.operators.rows[id])
	}
	return out
}

// DropOperator forgets an operator.
func (c *Cache) DropOperator(id identity.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.opNonce, c.t.operators.rows[id].NonceSHA256)
	c.news(c.t.operators.drop(id))
}
