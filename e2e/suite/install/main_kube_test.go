//go:build kube

package install_test

import (
	"testing"

	"go.uber.org/goleak"

	"nstance.dev/e2e/env/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kube.OwnNetwork(m)) }
