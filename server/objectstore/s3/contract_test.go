package s3_test

import (
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/s3"
	"nstance.dev/server/objectstore/storetest"
)

// The server in this process ignores If-Match on deletions. One that heeds it is
// a process of its own: see e2e/env/storage.
func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) objectstore.Store {
		backend := s3mem.New()
		if err := backend.CreateBucket("bucket"); err != nil {
			t.Fatal(err)
		}
		return open(t, gofakes3.New(backend).Server(), s3.Options{})
	}, storetest.ConditionalDeletes)
}
