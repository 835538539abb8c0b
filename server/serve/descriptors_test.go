package serve

import (
	"strings"
	"syscall"
	"testing"
)

// TestS22_NoStartWithoutDescriptors: a server that could not keep files for its storage and its
// provider while strangers connect does not start, and says what to do.
func TestS22_NoStartWithoutDescriptors(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if _, err := connectionBudget(); err != nil {
		t.Errorf("with %d descriptors: %v", before.Cur, err)
	}
	low := before
	low.Cur = 300
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}()
	if b, err := connectionBudget(); err == nil || !strings.Contains(err.Error(), "LimitNOFILE") {
		t.Errorf("with 300 descriptors: %+v, %v", b, err)
	}
}
