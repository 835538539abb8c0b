//go:build storage

package storage_test

import (
	"testing"

	"go.uber.org/goleak"

	"nstance.dev/e2e/env/kube"
)

// TestMain has the tests run in a network of their own: one of them lays a cable there.
func TestMain(m *testing.M) { goleak.VerifyTestMain(kube.OwnNetwork(m)) }
