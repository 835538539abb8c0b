package cache

import (
	"context"
	"database/sql"
)

// Disk is the disk under a cache, which can be full.
type Disk struct{ Full func() bool }

// OpenOn opens a cache on a disk: as long as it is full, a new file takes the
// tables and no more.
func OpenOn(ctx context.Context, path string, opts Options, d Disk) (*Cache, error) {
	return open(ctx, path, opts, func(path string) (*sql.DB, error) {
		db, err := openFile(path)
		if err != nil || !d.Full() {
			return db, err
		}
		_, err = db.Exec("PRAGMA max_page_count = 24") // the empty tables need a few less
		return db, err
	})
}
