package cache

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Public keys and hashes of nonces are nobody else's business.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// opener opens the file at a path, which exists.
type opener func(path string) (*sql.DB, error)

// openFile opens a SQLite file with one connection: there is one writer.
func openFile(path string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: url.Values{"_pragma": {
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(NORMAL)",
	}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// makeDir makes the folder of the file.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	// The folder may have been there, and open to others.
	return os.Chmod(dir, dirMode)
}

// beginFile replaces what is at path by an empty file with all tables.
func beginFile(path string, open opener) (*sql.DB, error) {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove the old file: %w", err)
		}
	}
	if err := makeDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("make its folder: %w", err)
	}
	// SQLite gives the files beside this one the mode of this one.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, fmt.Errorf("make the file: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("make the file: %w", err)
	}
	db, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("open the file: %w", err)
	}
	if err := makeTables(db); err != nil {
		return nil, errors.Join(fmt.Errorf("make the tables: %w", err), db.Close())
	}
	return db, nil
}

func makeTables(db *sql.DB) error {
	statements, version := layout()
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	for _, s := range append(statements, fmt.Sprintf("PRAGMA user_version = %d", version)) {
		if _, err := tx.Exec(s); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

// writeBatches writes all batches or none.
func writeBatches(db *sql.DB, batches []batch) error {
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	for _, b := range batches {
		if err := b.write(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}
