package proxmox

import (
	"errors"
	"sync"
)

// The numbers that machines are given. Below are people's own.
const (
	minNumber = 10_000
	maxNumber = 999_999_999 // the API's own limit
)

// numbers hands out machine numbers, each once. The zero value is ready for use.
type numbers struct {
	mu   sync.Mutex
	last int
}

// take returns a number above all that were handed out, and above highest, that of
// a machine which exists. Another program may take it all the same.
func (n *numbers) take(highest int) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := max(minNumber, highest+1, n.last+1)
	if next > maxNumber {
		return 0, errors.New("no machine number is left above the highest one")
	}
	n.last = next
	return next, nil
}
