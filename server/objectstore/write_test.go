package objectstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/objectstore/storetest"
)

func TestWithPrefixContract(t *testing.T) {
	for _, prefix := range []string{"", "/", "env", "/a/b/"} {
		t.Run("prefix "+prefix, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) objectstore.Store {
				inner := memory.New(memory.Options{})
				if prefix == "env" { // what stands beside the folder is not in it
					if _, err := inner.PutIfAbsent(t.Context(), "environment", nil); err != nil {
						t.Fatal(err)
					}
				}
				return objectstore.WithPrefix(inner, prefix)
			})
		})
	}
}

func TestWithPrefixRefusesABadPrefix(t *testing.T) {
	s := objectstore.WithPrefix(memory.New(memory.Options{}), "a/../b")
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, objectstore.ErrKey) {
		t.Errorf("get: %v", err)
	}
}

// onPut makes faults of writes and deletions, by their number from 1.
func onPut(faults ...memory.Fault) func() memory.Faults {
	return func() memory.Faults { return inTurn(faults) }
}

func inTurn(faults []memory.Fault) memory.Faults {
	n := 0
	return func(c memory.Call) memory.Fault {
		if c.Op != memory.OpPut && c.Op != memory.OpDelete || n >= len(faults) {
			return memory.Fault{}
		}
		n++
		return faults[n-1]
	}
}

func TestPut(t *testing.T) {
	lost := memory.Fault{After: objectstore.ErrUnavailable}
	down := memory.Fault{Before: objectstore.ErrUnavailable}
	busy := memory.Fault{Before: objectstore.ErrConflict}
	slow := memory.Fault{Before: objectstore.ErrThrottled}
	permission := errors.New("permission denied")
	tests := []struct {
		name   string
		faults func() memory.Faults
		want   error
		stored bool
	}{
		{name: "all is well", faults: onPut(), stored: true},
		{name: "F3 the answer is lost", faults: onPut(lost), stored: true},
		{name: "F3 two answers are lost", faults: onPut(lost, lost), stored: true},
		{name: "F3 the write lands after the retry", faults: onPut(memory.Fault{Late: time.Nanosecond}), stored: true},
		{name: "F5 conflicts", faults: onPut(busy, busy, busy, busy), stored: true},
		{name: "F5 slow down", faults: onPut(slow, busy, down), stored: true},
		{name: "conflicts without end", faults: onPut(busy, busy, busy, busy, busy), want: objectstore.ErrConflict},
		{name: "unknown without end", faults: onPut(down, down, down, down, down), want: objectstore.ErrUnavailable},
		{name: "an early doubt is not forgotten", faults: onPut(down, slow, slow, slow, slow), want: objectstore.ErrUnavailable},
		{name: "a permanent error is not repeated", faults: onPut(memory.Fault{Before: permission}), want: permission},
		{name: "a call that hangs is repeated", faults: onPut(memory.Fault{Latency: time.Hour}), stored: true},
	}
	for _, tt := range tests {
		for _, fresh := range []bool{true, false} {
			t.Run(tt.name+map[bool]string{true: ", absent", false: ", existing"}[fresh], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := memory.New(memory.Options{})
					before := ""
					if !fresh {
						before, _ = s.PutIfAbsent(t.Context(), "k", []byte("old"))
					}
					s.SetFaults(tt.faults())
					etag, err := objectstore.Put(t.Context(), s, "k", []byte("new"), before, objectstore.RetryPolicy{CallTimeout: time.Second})
					s.SetFaults(nil)
					if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
						t.Errorf("put: %v, want %v", err, tt.want)
					}
					o, _ := s.Get(t.Context(), "k")
					if stored := string(o.Data) == "new"; stored != tt.stored || err == nil && o.ETag != etag {
						t.Errorf("stored %q with etag %s, put returned %s", o.Data, o.ETag, etag)
					}
				})
			})
		}
	}
}

func TestPutLosesToAnother(t *testing.T) {
	s := memory.New(memory.Options{})
	first, _ := s.PutIfAbsent(t.Context(), "k", []byte("one"))
	if _, err := s.PutIfMatch(t.Context(), "k", []byte("theirs"), first); err != nil {
		t.Fatal(err)
	}
	for _, etag := range []string{first, "", "other"} {
		if _, err := objectstore.Put(t.Context(), s, "k", []byte("ours"), etag, objectstore.RetryPolicy{}); !errors.Is(err, objectstore.ErrPrecondition) {
			t.Errorf("with etag %q: %v", etag, err)
		}
	}
	if _, err := objectstore.Put(t.Context(), s, "absent", []byte("ours"), first, objectstore.RetryPolicy{}); !errors.Is(err, objectstore.ErrPrecondition) {
		t.Errorf("on an absent key: %v", err)
	}
	if calls := s.Calls(); calls > 12 {
		t.Errorf("%d calls: a loss is not to be retried", calls)
	}
}

func TestPutEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		s.Down(true)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := objectstore.Put(ctx, s, "k", nil, "", objectstore.RetryPolicy{Attempts: 1000})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("put: %v", err)
		}
	})
}

func TestDelete(t *testing.T) {
	tests := []struct {
		name   string
		faults func() memory.Faults
		etag   string
		want   error
	}{
		{name: "all is well", faults: onPut()},
		{name: "the answer is lost", faults: onPut(memory.Fault{After: objectstore.ErrUnavailable})},
		{name: "F5 conflicts", faults: onPut(memory.Fault{Before: objectstore.ErrConflict})},
		{name: "a stale etag", faults: onPut(), etag: "other", want: objectstore.ErrPrecondition},
		{name: "down", faults: onPut(slices.Repeat([]memory.Fault{{Before: objectstore.ErrUnavailable}}, 5)...), want: objectstore.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New(memory.Options{})
				etag, _ := s.PutIfAbsent(t.Context(), "k", nil)
				if tt.etag != "" {
					etag = tt.etag
				}
				s.SetFaults(tt.faults())
				err := objectstore.Delete(t.Context(), s, "k", etag, objectstore.RetryPolicy{})
				if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
					t.Errorf("delete: %v, want %v", err, tt.want)
				}
			})
		})
	}
	if err := objectstore.Delete(t.Context(), memory.New(memory.Options{}), "k", "v1", objectstore.RetryPolicy{}); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("delete of an absent key: %v", err)
	}
}

// careless is a store that ignores conditions, as some emulators do.
type careless struct {
	*memory.Store
	puts, deletes bool
}

func (c careless) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	if o, err := c.Get(ctx, key); err == nil && c.puts {
		etag = o.ETag
	}
	return c.Store.PutIfMatch(ctx, key, data, etag)
}

func (c careless) DeleteIfMatch(ctx context.Context, key, etag string) error {
	if o, err := c.Get(ctx, key); err == nil && c.deletes && etag != "" {
		etag = o.ETag
	}
	return c.Store.DeleteIfMatch(ctx, key, etag)
}

func TestF9_SelfTestFindsStoresThatIgnoreConditions(t *testing.T) {
	for _, tt := range []struct {
		store careless
		want  objectstore.Report
		err   error
	}{
		{store: careless{}},
		{store: careless{deletes: true}, want: objectstore.Report{DeleteUnconditional: true}},
		{store: careless{puts: true}, err: objectstore.ErrConditionsIgnored},
	} {
		tt.store.Store = memory.New(memory.Options{})
		for range 2 {
			report, err := objectstore.SelfTest(t.Context(), tt.store, "probe")
			if report != tt.want || !errors.Is(err, tt.err) || (tt.err == nil) != (err == nil) {
				t.Errorf("%+v: %+v, %v", tt.store, report, err)
			}
		}
	}
}

func FuzzValidateKey(f *testing.F) {
	for _, key := range []string{"a/b.json", "../a", "a//b", "", ".a", "a/.", "é"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if objectstore.ValidateKey(key) != nil {
			return
		}
		for i := range len(key) { // each beginning of a key that is text is a prefix
			if err := objectstore.ValidatePrefix(key[:i]); err != nil && key[i]&0xc0 != 0x80 {
				t.Errorf("%q is a key, its beginning %q no prefix: %v", key, key[:i], err)
			}
		}
	})
}

// TestS2_EachTryIsPermitted: permission is asked for right before each try, and
// what it says then counts; a doubt that an earlier try has left stays one.
func TestS2_EachTryIsPermitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := errors.New("over")
		s := memory.New(memory.Options{})
		busy := memory.Fault{Before: objectstore.ErrConflict}
		down := memory.Fault{Before: objectstore.ErrUnavailable}
		s.SetFaults(onPut(busy, down)())
		asked := 0
		policy := objectstore.RetryPolicy{Permit: func(context.Context) error {
			if asked++; asked > 2 {
				return over
			}
			return nil
		}}
		_, err := objectstore.Put(t.Context(), s, "k", []byte("v"), "", policy)
		if !errors.Is(err, over) || !errors.Is(err, objectstore.ErrUnavailable) || asked != 3 {
			t.Errorf("put: %v after %d questions; want the refusal, with the doubt of the second try, after 3", err, asked)
		}
		asked = 2
		if err := objectstore.Delete(t.Context(), s, "k", "1", policy); !errors.Is(err, over) || errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("delete: %v, want the refusal alone", err)
		}
		if _, err := s.Get(t.Context(), "k"); !errors.Is(err, objectstore.ErrNotFound) {
			t.Errorf("something was written: %v", err)
		}
	})
}
