package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/memory"
)

// P9: how long a new leader of a large shard needs to know it.
//
// Ours: 100,000 records with a snapshot stand in storage, and the machines at the
// provider. The first row is the time from the beginning of the take-over until the
// shard serves; the second, until the file of the cache has every row as well.
// Neither may cost more than 300 requests to storage.
//
// Floor: the same records decoded out of the same snapshot, and rows of the same
// table inserted into a new SQLite file, in one transaction.
//
// Goal: 2 times the floor.
const takeOverRequests = 300

func measureTakeOver(ctx context.Context, env Env) ([]Row, error) {
	a, err := newArchive(ctx, largeShard, drivertest.Options{})
	if err != nil {
		return nil, err
	}
	t := &takeOvers{archive: a, term: 1}
	if _, err := t.served(ctx); err != nil { // the floor inserts its rows
		return nil, err
	}
	least, err := interleave(ctx, env.Rounds, t.floor, t.served, t.lastFiled)
	if err != nil {
		return nil, err
	}
	row := Row{Unit: "s", Floor: least[0], Against: "decode + bulk insert of the same rows", Goal: AtMost(2)}
	if t.requests > takeOverRequests {
		row.Broken = fmt.Sprintf("%d requests to storage, and %d is the bound", t.requests, takeOverRequests)
	}
	served, filed := row, row
	served.Name, served.Ours = fmt.Sprintf("take-over of 100,000, serving (%d requests)", t.requests), least[1]
	filed.Name, filed.Ours = "take-over of 100,000, all in the file", least[2]
	return []Row{served, filed}, nil
}

// takeOvers measures take-overs of one archive.
type takeOvers struct {
	*archive
	term     uint64
	requests int64   // of the dearest take-over
	filed    float64 // seconds until the rows of the last take-over were in the file

	table string  // how the cache makes its table of instances
	rows  [][]any // that the cache has written into it
}

// served returns the seconds until a new leader serves.
func (t *takeOvers) served(ctx context.Context) (took float64, err error) {
	t.term++
	var requests atomic.Int64
	t.store.SetFaults(func(memory.Call) memory.Fault {
		requests.Add(1)
		return memory.Fault{}
	})
	w, serving, err := t.begin(ctx, t.term, nil)
	if err != nil {
		return 0, err
	}
	t.requests = max(t.requests, requests.Load())
	t.store.SetFaults(nil)
	started := time.Now()
	if err := w.cache.Flush(ctx); err != nil {
		return 0, errors.Join(err, w.close())
	}
	t.filed = (serving + time.Since(started)).Seconds()
	if t.rows == nil {
		err = t.readRows(ctx, filepath.Join(w.dir, "cache.db"))
	}
	return serving.Seconds(), errors.Join(err, w.close())
}

func (t *takeOvers) lastFiled(context.Context) (float64, error) { return t.filed, nil }

// readRows reads the table of instances out of the file of a cache.
func (t *takeOvers) readRows(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	const schema = `SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'instances'`
	if err := db.QueryRowContext(ctx, schema).Scan(&t.table); err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, `SELECT * FROM instances`)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		t.rows = append(t.rows, row)
	}
	if len(t.rows) != largeShard {
		return fmt.Errorf("the cache has %d rows of %d instances", len(t.rows), largeShard)
	}
	return rows.Err()
}

// floor returns the seconds that decoding and inserting take.
func (t *takeOvers) floor(ctx context.Context) (float64, error) {
	started := time.Now()
	if err := t.decode(ctx); err != nil {
		return 0, err
	}
	decoded := time.Since(started)
	inserted, err := t.insert(ctx)
	return (decoded + inserted).Seconds(), err
}

func (t *takeOvers) decode(ctx context.Context) error {
	n := 0
	for part := 1; ; part++ {
		key := layout.SnapshotKey(shardName, archiveGeneration, part)
		object, err := t.store.Get(ctx, key)
		if err != nil {
			return err
		}
		snapshot, err := layout.DecodeSnapshotPart(key, object.Data)
		if err != nil {
			return err
		}
		n += len(snapshot.Records)
		if snapshot.Last {
			break
		}
	}
	if n != largeShard {
		return fmt.Errorf("%d records in the snapshot", n)
	}
	return nil
}

func (t *takeOvers) insert(ctx context.Context) (took time.Duration, err error) {
	dir, err := os.MkdirTemp("", "nstance-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "floor.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	started := time.Now()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, t.table); err != nil {
		return 0, err
	}
	places := strings.TrimSuffix(strings.Repeat("?,", len(t.rows[0])), ",")
	insert, err := tx.PrepareContext(ctx, `INSERT INTO instances VALUES (`+places+`)`)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	for _, row := range t.rows {
		if _, err := insert.ExecContext(ctx, row...); err != nil {
			return 0, err
		}
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	return time.Since(started), nil
}
