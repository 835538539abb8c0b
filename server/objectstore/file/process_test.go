package file_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/file"
)

// childDir makes this test binary a writer on the store in that folder.
const childDir = "NSTANCE_FILE_STORE_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, incrementForever(dir))
		os.Exit(1) //nolint:forbidigo // this process is the writer; it runs no test
	}
	goleak.VerifyTestMain(m)
}

// padding makes half a file easy to tell from a whole one.
var padding = bytes.Repeat([]byte("."), 64<<10)

// incrementForever adds to a counter, and says so after each success.
func incrementForever(dir string) error {
	s, err := file.New(dir)
	if err != nil {
		return err
	}
	for {
		n, etag, err := count(s)
		if err != nil {
			return err
		}
		_, err = s.PutIfMatch(context.Background(), "count", content(n+1), etag)
		if errors.Is(err, objectstore.ErrPrecondition) {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, n+1)
	}
}

func content(n int) []byte { return append(fmt.Appendf(nil, "%d\n", n), padding...) }

// count reads the counter, and errs where it is not whole.
func count(s objectstore.Store) (int, string, error) {
	o, err := s.Get(context.Background(), "count")
	if err != nil {
		return 0, "", err
	}
	number, rest, _ := bytes.Cut(o.Data, []byte("\n"))
	n, err := strconv.Atoi(string(number))
	if err != nil || !bytes.Equal(rest, padding) {
		return 0, "", fmt.Errorf("half an object: %d bytes, %w", len(o.Data), err)
	}
	return n, o.ETag, nil
}

// TestKilledWriters has processes increment one counter, and kills each with
// SIGKILL after some acknowledged increments. No acknowledged one may be lost,
// no lock may stay, and of each process at most its last write is uncounted.
func TestKilledWriters(t *testing.T) {
	const lanes, lives, acks = 3, 4, 15
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := s.PutIfAbsent(t.Context(), "count", content(0)); err != nil {
		t.Fatal(err)
	}
	var (
		wg           sync.WaitGroup
		mu           sync.Mutex
		acknowledged int
	)
	for range lanes {
		wg.Go(func() {
			for life := range lives {
				n, err := live(dir, acks+life)
				mu.Lock()
				acknowledged += n
				mu.Unlock()
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n, etag, err := count(s)
	if err != nil || n < acknowledged || n > acknowledged+lanes*lives {
		t.Errorf("counted %d, %v; %d were acknowledged", n, err, acknowledged)
	}
	if _, err := s.PutIfMatch(t.Context(), "count", content(0), etag); err != nil {
		t.Errorf("a write after all: %v", err)
	}
	page, err := s.List(t.Context(), "", "", 0)
	if err != nil || len(page.Objects) != 1 {
		t.Errorf("listed %+v, %v; want the counter alone", page, err)
	}
}

// live starts a writer, kills it after some acknowledgements, and returns how
// many it gave in all.
func live(dir string, acks int) (int, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	n := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n++; n == acks {
			if err := cmd.Process.Kill(); err != nil {
				return n, err
			}
		}
	}
	_ = cmd.Wait() // it was killed
	if stderr.Len() > 0 {
		return n, fmt.Errorf("a writer: %s", stderr.String())
	}
	return n, nil
}

func TestLockWaitHeedsTheContext(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	other := open(t, dir) // as another process would, it knows nothing of the first one's goroutines
	release, err := other.HoldLock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := s.PutIfAbsent(ctx, "k", nil)
		result <- err
	}()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("put while another holds the lock: %v", err)
	}
	release()
	if _, err := s.PutIfAbsent(t.Context(), "k", nil); err != nil {
		t.Errorf("put after the lock was released: %v", err)
	}
}
