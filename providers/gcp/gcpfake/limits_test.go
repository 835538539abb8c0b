package gcpfake_test

import (
	"testing"
	"time"

	"nstance.dev/providers/gcp/gcpfake"
)

func TestS21_CallsBeyondTheDocumentedRateAreRefused(t *testing.T) {
	within(t, gcpfake.Options{Limits: gcpfake.DocumentedLimits()}, func(t *testing.T, a *account) {
		for n := range 1500 {
			if s := a.status("none"); s != "404 notFound" {
				t.Fatalf("get no. %d: %s", n+1, s)
			}
		}
		if s := a.status("none"); s != "403 rateLimitExceeded" {
			t.Errorf("one more: %s", s)
		}
		if _, err := a.names("", 0); err != nil {
			t.Errorf("lists are counted apart: %v", err)
		}
		a.must("knc1") // as are changes, and looks at operations
		later(time.Second / 25)
		if s := a.status("knc1"); s != "RUNNING" {
			t.Errorf("a moment later: %s", s)
		}
	})
}
