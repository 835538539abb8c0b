package layout_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
)

var snapshotKey = layout.SnapshotKey("s1", 3, 2)

// recordsOf are n records of one shard.
func recordsOf(t testing.TB, n int) []layout.InstanceRecord {
	t.Helper()
	out := make([]layout.InstanceRecord, n)
	for i := range out {
		id, err := identity.NewID("vmx")
		if err != nil {
			t.Fatal(err)
		}
		data, err := layout.InstanceRecord{
			ID: id, Tenant: "default", Shard: "s1", Group: "web", Term: 6, Status: layout.StatusPending,
			CreatedAt: layout.At(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)), Hostname: fmt.Sprintf("host-%d<&>", i),
		}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if out[i], err = layout.DecodeInstanceRecord(layout.InstanceKey("s1", "default", id), data); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// pack makes the part that stands under snapshotKey.
func pack(t testing.TB, last bool, records ...layout.InstanceRecord) []byte {
	t.Helper()
	p := layout.PackSnapshot("s1", 7, 3, 2)
	for i, rec := range records {
		data, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if !p.Add(data, fmt.Sprintf("%q-%d", "etag", i)) {
			t.Fatal("no room")
		}
	}
	if p.Len() != len(records) {
		t.Errorf("%d records in it, want %d", p.Len(), len(records))
	}
	return p.Close(last)
}

// zipped compresses what may be no part at all.
func zipped(text string) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return buf.Bytes()
}

func TestSnapshotPartComesBackAsItWas(t *testing.T) {
	for _, n := range []int{0, 1, 5} {
		for _, last := range []bool{false, true} {
			records := recordsOf(t, n)
			got, err := layout.DecodeSnapshotPart(snapshotKey, pack(t, last, records...))
			if err != nil {
				t.Fatal(err)
			}
			want := layout.SnapshotPart{Term: 7, Last: last, Records: []layout.SnapshotRecord{}}
			for i, rec := range records {
				want.Records = append(want.Records, layout.SnapshotRecord{ETag: fmt.Sprintf("%q-%d", "etag", i), Record: rec})
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		}
	}
}

func TestSnapshotPartHasABound(t *testing.T) {
	p := layout.PackSnapshot("s1", 1, 3, 2)
	record, err := recordsOf(t, 1)[0].Encode()
	if err != nil {
		t.Fatal(err)
	}
	large := bytes.Replace(record, []byte(`"overrides":{}`), []byte(`"overrides":{"x":"`+strings.Repeat("y", 1<<20)+`"}`), 1)
	n := 0
	for p.Add(large, "e") {
		n++
	}
	if n != 15 || p.Len() != n {
		t.Errorf("%d records of a MiB had room, want 15", n)
	}
	for p.Add(record, "e") {
		n++
	}
	data := p.Close(true)
	if part, err := layout.DecodeSnapshotPart(snapshotKey, data); err != nil || len(part.Records) != n {
		t.Errorf("a full part: %d records of %d, %v", len(part.Records), n, err)
	}
}

func TestF10_SnapshotPartThatIsDamagedIsUnreadable(t *testing.T) {
	good := pack(t, true, recordsOf(t, 3)...)
	for n := range good {
		if _, err := layout.DecodeSnapshotPart(snapshotKey, good[:n]); !errors.Is(err, layout.ErrUnreadable) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(good), err)
		}
	}
	want, err := layout.DecodeSnapshotPart(snapshotKey, good)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		got, err := layout.DecodeSnapshotPart(snapshotKey, bad)
		if err == nil && !reflect.DeepEqual(got, want) { // some bits of the packing mean nothing
			t.Fatalf("byte %d of %d changed, and nobody noticed", i, len(good))
		}
	}
}

func TestF10_SnapshotPartThatIsNotWhatItsKeySays(t *testing.T) {
	tests := []struct {
		name string
		key  string
		data []byte
		want error
		text string
	}{
		{"another part", layout.SnapshotKey("s1", 3, 1), pack(t, true), layout.ErrUnreadable, "part 2 of generation 3"},
		{"another generation", layout.SnapshotKey("s1", 4, 2), pack(t, true), layout.ErrUnreadable, "part 2 of 4"},
		{"another shard", layout.SnapshotKey("s2", 3, 2), pack(t, true), layout.ErrUnreadable, "shard"},
		{"another kind of key", "snapshot/s1/x.json.gz", pack(t, true), layout.ErrUnreadable, "not of the form"},
		{"a newer version", snapshotKey, zipped(`{"v":2,"records":"elsewhere"}`), layout.ErrNewer, "upgrade"},
		{"no version", snapshotKey, zipped(`{"shard":"s1","generation":3,"part":2,"records":[]}`), layout.ErrUnreadable, "member v"},
		{"not compressed", snapshotKey, []byte(`{"v":1}`), layout.ErrUnreadable, "gzip"},
		{"not an object", snapshotKey, zipped(`[]`), layout.ErrUnreadable, "{ is wanted"},
		{"more than an object", snapshotKey, zipped(`{"v":1} {}`), layout.ErrUnreadable, "does not end"},
		{"records that are none", snapshotKey, zipped(`{"v":1,"records":{}}`), layout.ErrUnreadable, "member records"},
		{"a flood", snapshotKey, zipped(`{"v":1,"x":"` + strings.Repeat("a", layout.MaxSnapshotPart) + `"}`), layout.ErrUnreadable, "unpacked"},
		{"a flood behind the end", snapshotKey, zipped(`{"v":1,"shard":"s1","generation":3,"part":2}` + strings.Repeat(" ", layout.MaxSnapshotPart)), layout.ErrUnreadable, "unpacked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := layout.DecodeSnapshotPart(tt.key, tt.data)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v, want %v with %q", err, tt.want, tt.text)
			}
		})
	}
}

// A record that a newer server wrote is for its own object to tell; the others
// of its part are good.
func TestF10_SnapshotPartLeavesOutWhatItCannotRead(t *testing.T) {
	records := recordsOf(t, 2)
	newer, err := records[0].Encode()
	if err != nil {
		t.Fatal(err)
	}
	older, err := records[1].Encode()
	if err != nil {
		t.Fatal(err)
	}
	p := layout.PackSnapshot("s1", 7, 3, 2)
	p.Add(bytes.Replace(newer, []byte(`"v":1`), []byte(`"v":2`), 1), "a")
	p.Add(bytes.Replace(older, []byte(`"id":"vmx`), []byte(`"id":"VMX`), 1), "b")
	p.Add(older, "c")
	p.Add(older, "") // of which nothing could be compared
	part, err := layout.DecodeSnapshotPart(snapshotKey, p.Close(true))
	if err != nil || len(part.Records) != 1 || part.Records[0].ETag != "c" {
		t.Errorf("%+v, %v", part.Records, err)
	}
}

func TestSnapshotPartKeepsUnknownMembers(t *testing.T) {
	rec := recordsOf(t, 1)[0]
	data, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte(`"v":1`), []byte(`"v":1,"later":[1]`), 1)
	if rec, err = layout.DecodeInstanceRecord(rec.Key(), data); err != nil {
		t.Fatal(err)
	}
	part, err := layout.DecodeSnapshotPart(snapshotKey, pack(t, true, rec))
	if err != nil {
		t.Fatal(err)
	}
	again, err := part.Records[0].Record.Encode()
	if err != nil || !bytes.Contains(again, []byte(`"later":[1]`)) {
		t.Errorf("%s, %v", again, err)
	}
}

func FuzzDecodeSnapshotPart(f *testing.F) {
	f.Add(pack(f, true, recordsOf(f, 2)...))
	f.Add(zipped(`{"v":1,"records":[{"etag":"x","record":{}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, zipped(string(data))} {
			part, err := layout.DecodeSnapshotPart(snapshotKey, data)
			if doc, ok := errors.AsType[*layout.DocumentError](err); err != nil && (!ok || doc.Key != snapshotKey) {
				t.Fatalf("error of another kind: %v", err)
			}
			for _, r := range part.Records {
				if _, err := r.Record.Encode(); err != nil || r.ETag == "" {
					t.Fatalf("a record that nobody could write: %v", err)
				}
			}
		}
	})
}
