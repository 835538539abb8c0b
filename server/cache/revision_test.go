package cache_test

import (
	"sync"
	"testing"
)

// TestS12_ARevisionIsNotAheadOfTheRows: who reads a revision and then lists sees what it
// counts, whatever is written meanwhile.
func TestS12_ARevisionIsNotAheadOfTheRows(t *testing.T) {
	c, _ := openNew(t)
	const n = 2000
	var writer sync.WaitGroup
	writer.Go(func() {
		for range n {
			if err := c.Insert(instance(t, web)); err != nil {
				t.Error(err)
			}
		}
	})
	for !t.Failed() && c.Revision(web.Tenant) < n {
		before := c.Revision(web.Tenant)
		if rows := c.Tenant(web.Tenant); uint64(len(rows)) < before {
			t.Fatalf("revision %d, and %d instances", before, len(rows))
		}
	}
	writer.Wait()
}
