package provider

import (
	"context"
	"sync"
	"time"

	"nstance.dev/server/driver"
)

// Trouble says since when the provider has not been reached. The zero value is no
// trouble.
type Trouble struct {
	Since time.Time // of the first failed call after the last that worked
	Last  time.Time // of the latest failed call
	Tried int       // calls since then, all of them failed
}

// troubleBook keeps account of whether calls come through. What the provider refuses
// came through; see [driver.Reached].
type troubleBook struct {
	mu      sync.Mutex
	trouble Trouble
}

// outcome counts a call that began at the given time and whose answer, or lack of one,
// is here now.
func (b *troubleBook) outcome(began, now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if driver.Reached(err) {
		b.trouble = Trouble{}
		return
	}
	if b.trouble.Tried == 0 {
		b.trouble.Since = began
	}
	b.trouble.Tried++
	b.trouble.Last = now
}

// Trouble says whether the provider is reached, by the calls made so far.
func (c *Client) Trouble() Trouble {
	c.trouble.mu.Lock()
	defer c.trouble.mu.Unlock()
	return c.trouble.trouble
}

// Probe makes one call more, whose outcome [Client.Trouble] counts. Its error is that of
// the call; nil means that the provider has answered.
func (c *Client) Probe(ctx context.Context) error { return driver.Probe(ctx, c.Get) }
