package identity_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"nstance.dev/protos/identity"
	"pgregory.net/rapid"
)

var vectors = []struct {
	prefix, uuid, id, storageKey string
}{
	{"acc", "01970a1c-e31e-7422-9cd5-e9651d11cc97", "acc06bgm7733st2576nx5jht4ecjw", "01970a1c-e31e-7422-9cd5-e9651d11cc97-acc"},
	{"knc", "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", "knc068a3cp3thz5z2mv1gejwftabc", "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b-knc"},
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		id, err := identity.FromUUID(v.prefix, uuid.MustParse(v.uuid))
		if err != nil {
			t.Fatalf("FromUUID(%q, %s): %v", v.prefix, v.uuid, err)
		}
		if id.String() != v.id {
			t.Errorf("FromUUID(%q, %s) = %s, want %s", v.prefix, v.uuid, id, v.id)
		}
		back, err := identity.ParseID(v.id)
		if err != nil || back != id {
			t.Errorf("ParseID(%s) = %s, %v", v.id, back, err)
		}
		if back.Prefix() != v.prefix || back.UUID().String() != v.uuid || back.StorageKey() != v.storageKey {
			t.Errorf("%s: prefix %s, uuid %s, storage key %s", v.id, back.Prefix(), back.UUID(), back.StorageKey())
		}
		fromKey, err := identity.ParseStorageKey(v.storageKey)
		if err != nil || fromKey != id {
			t.Errorf("ParseStorageKey(%s) = %s, %v", v.storageKey, fromKey, err)
		}
	}
}

func TestCreatedAtComesFromTheID(t *testing.T) {
	want := time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)
	g := identity.Generator{Now: func() time.Time { return want }}
	id, err := g.NewID("knc")
	if err != nil {
		t.Fatal(err)
	}
	if got := id.CreatedAt(); !got.Equal(want) {
		t.Errorf("CreatedAt() = %v, want %v", got, want)
	}
}

func TestF52_ParseIDIsStrict(t *testing.T) {
	good := vectors[0].id
	for name, s := range map[string]string{
		"empty":                    "",
		"prefix alone":             "acc",
		"a character short":        good[:28],
		"a character long":         good + "0",
		"upper case":               strings.ToUpper(good),
		"upper case prefix":        "ACC" + good[3:],
		"digit in the prefix":      "ac1" + good[3:],
		"alias o for 0":            "acco6bgm7733st2576nx5jht4ecjw",
		"alias l for 1":            "acc06bgm7733st2576nx5jht4ecjl",
		"letter u":                 "acc06bgm7733st2576nx5jht4ecju",
		"unused bit set":           good[:28] + "x",
		"other unused bit set":     good[:28] + "y",
		"line break inside":        good[:14] + "\n" + good[15:],
		"line break at the end":    good[:28] + "\n",
		"slash":                    good[:14] + "/" + good[15:],
		"version 4":                mustCompose(t, "0190a1b2-c3d4-4e5f-8a9b-0c1d2e3f4a5b"),
		"variant of another kind":  mustCompose(t, "0190a1b2-c3d4-7e5f-ca9b-0c1d2e3f4a5b"),
		"nil UUID":                 "acc" + strings.Repeat("0", 26),
		"unicode of equal length":  "acc06bgm7733st2576nx5jht4eßw",
		"a look-alike in its mind": "асc06bgm7733st2576nx5jht4ecjw",
	} {
		if id, err := identity.ParseID(s); !errors.Is(err, identity.ErrID) || id != "" {
			t.Errorf("%s: ParseID(%q) = %q, %v, want an error", name, s, id, err)
		}
	}
}

// mustCompose writes a UUID that FromUUID refuses in the form of an id, by way
// of one that it accepts: version and variant are in characters of their own.
func mustCompose(t *testing.T, s string) string {
	t.Helper()
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	u := uuid.MustParse(s)
	var bits strings.Builder
	for _, b := range u {
		fmt.Fprintf(&bits, "%08b", b)
	}
	bits.WriteString("00")
	out := "acc"
	for chunk := range slices.Chunk([]byte(bits.String()), 5) {
		var n int
		for _, c := range chunk {
			n = n<<1 | int(c-'0')
		}
		out += string(alphabet[n])
	}
	return out
}

func TestF52_ParseStorageKeyIsStrict(t *testing.T) {
	for _, s := range []string{
		"", "-", "knc", "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b-",
		"0190A1B2-c3d4-7e5f-8a9b-0c1d2e3f4a5b-knc", "{0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b}-knc",
		"0190a1b2c3d47e5f8a9b0c1d2e3f4a5b-knc", "0190a1b2-c3d4-4e5f-8a9b-0c1d2e3f4a5b-knc", "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b-KNC",
	} {
		if id, err := identity.ParseStorageKey(s); !errors.Is(err, identity.ErrID) {
			t.Errorf("ParseStorageKey(%q) = %q, %v, want an error", s, id, err)
		}
	}
}

func TestMethodsOfAMalformedID(t *testing.T) {
	for _, id := range []identity.ID{"", "x", "knc", identity.ID("knc" + strings.Repeat("!", 26))} {
		if id.UUID() != uuid.Nil || id.StorageKey() != "" || !id.CreatedAt().IsZero() {
			t.Errorf("%q: uuid %s, storage key %q, created %v", id, id.UUID(), id.StorageKey(), id.CreatedAt())
		}
	}
}

func TestIDsSortByCreation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		g := identity.Generator{Now: func() time.Time { return now }}
		steps := rapid.SliceOfN(rapid.IntRange(-3, 3), 1, 200).Draw(t, "steps in milliseconds")
		var previous identity.ID
		for _, step := range steps {
			now = now.Add(time.Duration(step) * time.Millisecond)
			id, err := g.NewID("knc")
			if err != nil {
				t.Fatal(err)
			}
			if id <= previous || id.StorageKey() <= previous.StorageKey() {
				t.Fatalf("%s was made after %s", id, previous)
			}
			if _, err := identity.ParseID(id.String()); err != nil {
				t.Fatal(err)
			}
			previous = id
		}
	})
}

func TestMoreIDsThanAMillisecondHolds(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g := identity.Generator{Now: func() time.Time { return now }}
	var previous identity.ID
	for i := range 20_000 {
		id, err := g.NewID("knc")
		if err != nil {
			t.Fatal(err)
		}
		if id <= previous {
			t.Fatalf("id %d: %s is not after %s", i, id, previous)
		}
		previous = id
	}
	if ahead := previous.CreatedAt().Sub(now); ahead > 20*time.Millisecond {
		t.Errorf("20,000 ids run %v ahead of the clock", ahead)
	}
}

func TestIDsFollowAClockThatWasSetBack(t *testing.T) {
	now := time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)
	g := identity.Generator{Now: func() time.Time { return now }}
	if _, err := g.NewID("knc"); err != nil {
		t.Fatal(err)
	}
	now = now.AddDate(-10, 0, 0)
	id, err := g.NewID("knc")
	if err != nil {
		t.Fatal(err)
	}
	if !id.CreatedAt().Equal(now) {
		t.Errorf("created at %v, want %v", id.CreatedAt(), now)
	}
}

func TestNewIDIsSafeForConcurrentUse(t *testing.T) {
	results := make(chan []identity.ID)
	for range 8 {
		go func() {
			var ids []identity.ID
			for range 500 {
				id, _ := identity.NewID("knc")
				ids = append(ids, id)
			}
			results <- ids
		}()
	}
	seen := map[identity.ID]bool{}
	for range 8 {
		ids := <-results
		if !slices.IsSorted(ids) {
			t.Error("the ids of one goroutine are out of order")
		}
		for _, id := range ids {
			seen[id] = true
		}
	}
	if len(seen) != 8*500 {
		t.Errorf("%d different ids, want %d", len(seen), 8*500)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("no entropy") }

func TestNewIDFails(t *testing.T) {
	for _, prefix := range []string{"", "kn", "knce", "KNC", "k1c", "k-c", "ké"} {
		if id, err := identity.NewID(prefix); !errors.Is(err, identity.ErrID) {
			t.Errorf("NewID(%q) = %q, %v, want an error", prefix, id, err)
		}
	}
	g := identity.Generator{Rand: brokenReader{}}
	if id, err := g.NewID("knc"); err == nil || id != "" {
		t.Errorf("without entropy NewID = %q, %v, want an error", id, err)
	}
}

func FuzzParseID(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.id)
		f.Add(v.storageKey)
	}
	f.Add("acc06bgm7733st2576nx5jht4ecj\n")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := identity.ParseID(s)
		if err != nil {
			if !errors.Is(err, identity.ErrID) || id != "" {
				t.Fatalf("ParseID(%q) = %q, %v", s, id, err)
			}
			return
		}
		again, err := identity.FromUUID(id.Prefix(), id.UUID())
		if err != nil || again.String() != s {
			t.Fatalf("%q has a second spelling %q (%v)", s, again, err)
		}
		fromKey, err := identity.ParseStorageKey(id.StorageKey())
		if err != nil || fromKey != id {
			t.Fatalf("storage key %q reads as %q (%v)", id.StorageKey(), fromKey, err)
		}
	})
}

func FuzzParseStorageKey(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.storageKey)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := identity.ParseStorageKey(s); err == nil && id.StorageKey() != s {
			t.Fatalf("%q has a second spelling %q", s, id.StorageKey())
		}
	})
}
