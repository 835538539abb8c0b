package config

import (
	"time"

	"nstance.dev/server/config/effective"
)

// Version is a configuration as it was read.
type Version struct {
	Config   *effective.Config
	ETag     string    // of the stored object; empty: it was not read from storage
	Modified time.Time // in storage; zero: as with ETag
	Size     int       // of its text, in bytes
}
