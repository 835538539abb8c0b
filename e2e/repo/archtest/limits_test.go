package archtest

import (
	"strconv"
	"testing"
	"time"

	agentfiles "nstance.dev/agent/files"
	"nstance.dev/server/config/document"
)

// TestS22_AnAgentTakesTheFilesOfATemplate: as many files as a template may have can wait
// for one commit on a machine, and no more.
func TestS22_AnAgentTakesTheFilesOfATemplate(t *testing.T) {
	store, err := agentfiles.Open(agentfiles.Options{
		Dir: t.TempDir(), Mode: 0o600, DirMode: 0o700, StoreHash: func(string) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range document.MaxFiles {
		if err := store.Stage("f"+strconv.Itoa(i), nil, time.Time{}); err != nil {
			t.Fatalf("file %d of %d: %v", i+1, document.MaxFiles, err)
		}
	}
	if store.Stage("more", nil, time.Time{}) == nil {
		t.Errorf("an agent takes more than %d files: document.MaxFiles need not be so small", document.MaxFiles)
	}
}
