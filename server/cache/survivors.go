package cache

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// The facts that a restart should not forget are of use only while they are
// right: a wrong image would be booted. SQLite notices a damaged structure and
// not a damaged value, so each of these rows carries a checksum.

func newTermsTable() *table[string, uint64] {
	return newTable(schema{name: "terms", keys: 1, columns: []string{"lock TEXT", "term INTEGER", "checksum INTEGER"}},
		bindText, func(lock string, term uint64) []any {
			return []any{lock, int64(term), checksum(lock, int64(term))}
		})
}

func newImagesTable() *table[string, Image] {
	return newTable(schema{name: "images", keys: 1, columns: []string{
		"key TEXT", "image_id TEXT", "resolved_at INTEGER", "source TEXT", "error TEXT", "checksum INTEGER",
	}}, bindText, func(key string, i Image) []any {
		at := unixMilli(i.ResolvedAt)
		return []any{key, i.ImageID, at, i.Source, i.Error, checksum(key, i.ImageID, at, i.Source, i.Error)}
	})
}

// checksum is never changed without changing a column's name: a file from
// before would be read as damaged.
func checksum(values ...any) int64 {
	h := crc32.NewIEEE()
	for _, v := range values {
		fmt.Fprintf(h, "%q,", fmt.Sprint(v))
	}
	return int64(h.Sum32())
}

// survivors are the facts that are read from the file of the process before.
type survivors struct {
	terms  map[string]uint64
	images map[string]Image
}

// errLayout says that a file is of another version of this program.
var errLayout = errors.New("the file has another layout")

// readSurvivors reads what a file keeps beyond restarts. Together with an error
// it returns what it could read.
func readSurvivors(ctx context.Context, db *sql.DB) (survivors, error) {
	s := survivors{terms: make(map[string]uint64), images: make(map[string]Image)}
	_, want := layout()
	var version int32
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return s, fmt.Errorf("read its version: %w", err)
	}
	if version != want {
		return s, errLayout
	}
	return s, errors.Join(s.readTerms(ctx, db), s.readImages(ctx, db))
}

func (s survivors) readTerms(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, "SELECT lock, term, checksum FROM terms")
	if err != nil {
		return fmt.Errorf("read terms: %w", err)
	}
	defer rows.Close()
	var damaged error
	for rows.Next() {
		var lock string
		var term, sum int64
		if err := rows.Scan(&lock, &term, &sum); err != nil || sum != checksum(lock, term) {
			damaged = errors.New("read terms: a row is damaged")
			continue
		}
		s.terms[lock] = uint64(term)
	}
	return errors.Join(damaged, rows.Err())
}

func (s survivors) readImages(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, "SELECT key, image_id, resolved_at, source, error, checksum FROM images")
	if err != nil {
		return fmt.Errorf("read images: %w", err)
	}
	defer rows.Close()
	var damaged error
	for rows.Next() {
		var i Image
		var at, sum int64
		err := rows.Scan(&i.Key, &i.ImageID, &at, &i.Source, &i.Error, &sum)
		if err != nil || sum != checksum(i.Key, i.ImageID, at, i.Source, i.Error) {
			damaged = errors.New("read images: a row is damaged")
			continue
		}
		if at != 0 {
			i.ResolvedAt = time.UnixMilli(at).UTC()
		}
		s.images[i.Key] = i
	}
	return errors.Join(damaged, rows.Err())
}

// unixMilli is 0 for the zero time.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
