package secretstest

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/operator/credentials/secrets"
)

// Run tests that stores keep the contract of [secrets.Store]. open returns an empty one.
func Run(t *testing.T, open func(t *testing.T) secrets.Store) {
	t.Run("what was stored comes back", func(t *testing.T) { comesBack(t, open(t)) })
	t.Run("of two that create, one does", func(t *testing.T) { oneCreates(t, open(t)) })
	t.Run("an update needs the version that is there", func(t *testing.T) { updateNeedsVersion(t, open(t)) })
	t.Run("Write goes on from what others wrote", func(t *testing.T) { writeGoesOn(t, open(t)) })
}

// sample has something in every field.
func sample() secrets.Secret {
	return secrets.Secret{
		Name: "x", Type: "kubernetes.io/tls",
		Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
		Owners: []secrets.Owner{{APIVersion: "v1", Kind: "Cluster", Name: "o", UID: "u"}},
		Data:   map[string][]byte{"tls.crt": {1, 2}, "tls.key": {}},
	}
}

func comesBack(t *testing.T, store secrets.Store) {
	t.Helper()
	if _, err := store.Get(t.Context(), "x"); !errors.Is(err, secrets.ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	created, err := store.Create(t.Context(), sample())
	if err != nil || created.Version == "" {
		t.Fatalf("%v, version %q", err, created.Version)
	}
	got, err := store.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), got, cmpopts.IgnoreFields(secrets.Secret{}, "Version"), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if got.Version != created.Version {
		t.Errorf("version %q, was created with %q", got.Version, created.Version)
	}
}

func oneCreates(t *testing.T, store secrets.Store) {
	t.Helper()
	var all sync.WaitGroup
	results := make(chan error, 2)
	for range 2 {
		all.Go(func() {
			_, err := store.Create(t.Context(), sample())
			results <- err
		})
	}
	all.Wait()
	first, second := <-results, <-results
	if (first == nil) == (second == nil) || !errors.Is(errors.Join(first, second), secrets.ErrExists) {
		t.Errorf("%v and %v", first, second)
	}
}

func updateNeedsVersion(t *testing.T, store secrets.Store) {
	t.Helper()
	if _, err := store.Update(t.Context(), sample()); !errors.Is(err, secrets.ErrNotFound) && !errors.Is(err, secrets.ErrConflict) {
		t.Errorf("of nothing: %v", err)
	}
	first, err := store.Create(t.Context(), sample())
	if err != nil {
		t.Fatal(err)
	}
	next := first.Clone()
	next.Data["tls.key"] = []byte{3}
	second, err := store.Update(t.Context(), next)
	if err != nil || second.Version == first.Version {
		t.Fatalf("%v, version %q", err, second.Version)
	}
	if _, err := store.Update(t.Context(), next); !errors.Is(err, secrets.ErrConflict) {
		t.Errorf("of a version that is gone: %v", err)
	}
}

func writeGoesOn(t *testing.T, store secrets.Store) {
	t.Helper()
	for i := range byte(3) {
		_, err := secrets.Write(t.Context(), store, "x", func(s secrets.Secret) (secrets.Secret, error) {
			if i == 1 && len(s.Data["n"]) == 1 { // somebody is faster
				other := s.Clone()
				other.Data["n"] = append(other.Data["n"], 9)
				if _, err := store.Update(t.Context(), other); err != nil {
					return s, err
				}
			}
			s.Data["n"] = append(s.Data["n"], i)
			return s, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.Get(t.Context(), "x")
	if diff := cmp.Diff([]byte{0, 9, 1, 2}, got.Data["n"]); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}
