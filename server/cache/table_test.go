package cache

import (
	"testing"
)

// TestS22_ChangesOfARowCoalesce shows that what waits for the writer is bounded
// by the rows and not by the changes, and by nothing at all without a file.
func TestS22_ChangesOfARowCoalesce(t *testing.T) {
	table := newTermsTable()
	news := 0
	for i := range 1000 {
		if table.put("shard", uint64(i)) {
			news++
		}
	}
	b, ok := table.take().(*tableBatch[string, uint64])
	if !ok || news != 1 || len(b.changes) != 1 || b.changes[0].row != 999 {
		t.Fatalf("%d news, batch %+v", news, b)
	}
	if table.take() != nil {
		t.Fatal("taken twice")
	}

	table.turnOff()
	if table.put("shard", 1000) || table.drop("shard") || table.take() != nil {
		t.Fatal("changes are collected without a file")
	}
	table.put("cluster", 3)
	table.turnOn()
	if b, ok := table.take().(*tableBatch[string, uint64]); !ok || len(b.changes) != 1 || b.changes[0].key != "cluster" {
		t.Fatalf("batch for a new file: %+v", b)
	}
}
