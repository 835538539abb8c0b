package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"nstance.dev/server/objectstore"
)

const (
	writers = 50
	rounds  = 5
)

// outcomes runs n writers at once and returns the etags of those that won.
func outcomes(t *testing.T, n int, write func(i int) (string, error)) []string {
	t.Helper()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		wins []string
	)
	for i := range n {
		wg.Go(func() {
			etag, err := write(i)
			for errors.Is(err, objectstore.ErrConflict) || errors.Is(err, objectstore.ErrThrottled) {
				etag, err = write(i)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				wins = append(wins, etag)
			case !errors.Is(err, objectstore.ErrPrecondition) && !errors.Is(err, objectstore.ErrNotFound):
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	return wins
}

func raceToCreate(t *testing.T, s objectstore.Store) {
	for round := range rounds {
		key := fmt.Sprintf("race/%d", round)
		wins := outcomes(t, writers, func(i int) (string, error) {
			return s.PutIfAbsent(t.Context(), key, []byte(strconv.Itoa(i)))
		})
		if len(wins) != 1 {
			t.Fatalf("round %d: %d winners", round, len(wins))
		}
	}
}

func raceToReplace(t *testing.T, s objectstore.Store) {
	etag := create(t, s, "race", "start")
	for round := range rounds {
		wins := outcomes(t, writers, func(i int) (string, error) {
			return s.PutIfMatch(t.Context(), "race", fmt.Appendf(nil, "%d/%d", round, i), etag)
		})
		if len(wins) != 1 {
			t.Fatalf("round %d: %d winners", round, len(wins))
		}
		etag = wins[0]
		if o, err := s.Get(t.Context(), "race"); err != nil || o.ETag != etag {
			t.Fatalf("round %d: stored etag %s, %v, winner's %s", round, o.ETag, err, etag)
		}
	}
}

func raceToDelete(t *testing.T, s objectstore.Store) {
	for range rounds {
		etag := create(t, s, "race", "start")
		wins := outcomes(t, 10, func(i int) (string, error) {
			if i%2 == 0 {
				return "deleted", s.DeleteIfMatch(t.Context(), "race", etag)
			}
			return s.PutIfMatch(t.Context(), "race", []byte(strconv.Itoa(i)), etag)
		})
		if len(wins) != 1 {
			t.Fatalf("winners: %q", wins)
		}
		if wins[0] == "deleted" {
			continue
		}
		if err := s.DeleteIfMatch(t.Context(), "race", wins[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// counter adds with read, increment, conditional write, as leaders do.
func counter(t *testing.T, s objectstore.Store) {
	create(t, s, "count", "0")
	outcomes(t, 4, func(int) (string, error) {
		for range 10 {
			if err := increment(t, s); err != nil {
				return "", err
			}
		}
		return "", nil
	})
	if o, err := s.Get(t.Context(), "count"); err != nil || string(o.Data) != "40" {
		t.Errorf("the count is %q, %v; want 40", o.Data, err)
	}
}

func increment(t *testing.T, s objectstore.Store) error {
	for {
		o, err := s.Get(t.Context(), "count")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(o.Data))
		if err != nil {
			return err
		}
		_, err = s.PutIfMatch(t.Context(), "count", []byte(strconv.Itoa(n+1)), o.ETag)
		if err == nil || !errors.Is(err, objectstore.ErrPrecondition) && !objectstore.Retryable(err) {
			return err
		}
	}
}
