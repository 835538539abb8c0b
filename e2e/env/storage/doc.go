// Package storage starts real servers of object storage for tests: one that
// speaks S3, in a directory, and an emulator of Google Cloud Storage, in memory.
// They are processes of their own, listen on loopback and end with the test.
//
// The binaries are built by `make test-storage`, from the sources that
// e2e/tools/storage pins. A test whose binary is missing fails.
package storage
