//go:build storage

package storage_test

import (
	"testing"

	"nstance.dev/e2e/env/storage"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/backends"
	"nstance.dev/server/objectstore/storetest"
)

// open opens an empty bucket of the server.
func open(t *testing.T, server *storage.Server) objectstore.Store {
	t.Helper()
	return openBucket(t, server, server.NewBucket(t))
}

func openBucket(t *testing.T, server *storage.Server, bucket string) objectstore.Store {
	t.Helper()
	at := backends.Location{Kind: server.Kind, Bucket: bucket, Prefix: "env"}
	s, err := backends.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The server checks the condition of a deletion, but not in one step with it, and
// says of an absent object that it was deleted. Amazon's own tell.
func TestContractOfS3(t *testing.T) {
	server := storage.S3(t)
	server.Setenv(t)
	storetest.Run(t, func(t *testing.T) objectstore.Store { return open(t, server) },
		storetest.DeleteRaces, storetest.DeletesOfNothing)
}

// The emulator ignores the condition of a deletion, which Google's own servers
// heed.
func TestContractOfGCS(t *testing.T) {
	server := storage.GCS(t)
	server.Setenv(t)
	storetest.Run(t, func(t *testing.T) objectstore.Store { return open(t, server) }, storetest.ConditionalDeletes)
}
