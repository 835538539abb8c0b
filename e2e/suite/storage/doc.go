// Package storage tests stores and servers against real servers of object storage. Its tests
// have the build tag storage: `make test-storage` builds what they start.
package storage
