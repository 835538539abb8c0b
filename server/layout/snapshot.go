package layout

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxSnapshotPart bounds one part of a snapshot in bytes: the object, and what
// it holds unpacked, so that nobody needs more memory than that to read one.
const MaxSnapshotPart = 16 << 20

// SnapshotPart is one object of a snapshot of a shard's instance records: so
// many of them as fit. A snapshot saves requests and proves nothing. Its entry
// for a record is good only where the record's own object still has the etag
// of the entry.
type SnapshotPart struct {
	Term uint64 // of the leader that wrote it
	Last bool   // it is the last of its generation

	Records []SnapshotRecord
}

// SnapshotRecord is the copy of a record and the etag of the object that it was
// copied from.
type SnapshotRecord struct {
	ETag   string
	Record InstanceRecord
}

// snapshotHead is how a part begins; its records, and whether it is the last,
// follow.
type snapshotHead struct {
	V          int    `json:"v"`
	Term       uint64 `json:"term"`
	Shard      string `json:"shard"`
	Generation uint64 `json:"generation"`
	Part       int    `json:"part"`
}

// SnapshotPacker makes one part of a snapshot. Make one with [PackSnapshot].
type SnapshotPacker struct {
	buf  bytes.Buffer
	zip  *gzip.Writer
	size int // unpacked
	room int // that size has
	n    int
}

// The members that follow the head, and what closes them.
const (
	snapshotRecords = `,"records":[`
	snapshotEnd     = "\n],\"last\":false}\n" // false is the longer one
)

// PackSnapshot begins the part that is to stand under the key that [SnapshotKey]
// returns for shard, generation and part.
func PackSnapshot(shard string, term, generation uint64, part int) *SnapshotPacker {
	head, err := json.Marshal(snapshotHead{V: version, Term: term, Shard: shard, Generation: generation, Part: part})
	if err != nil {
		panic(err) // texts and numbers have a form in JSON
	}
	p := &SnapshotPacker{room: MaxSnapshotPart}
	// Half as small would take five times as long; the error is for a bad level.
	p.zip, _ = gzip.NewWriterLevel(&p.buf, gzip.BestSpeed)
	p.write(head[:len(head)-1])
	p.write([]byte(snapshotRecords))
	return p
}

// Narrow leaves the part less room than [MaxSnapshotPart], which is in bytes before they
// are packed, so that there are several parts of what is small. More room it does not give.
func (p *SnapshotPacker) Narrow(room int) { p.room = min(p.room, room) }

// Add appends a record with the etag of its object, in the form of [InstanceRecord.Encode].
// It returns false, and adds nothing, where the part has no room left for it.
func (p *SnapshotPacker) Add(record []byte, etag string) bool {
	quoted, err := json.Marshal(etag)
	if err != nil {
		panic(err) // a text has a form in JSON
	}
	separator := "\n"
	if p.n > 0 {
		separator = ",\n"
	}
	entry := make([]byte, 0, len(separator)+len(`{"etag":,"record":}`)+len(quoted)+len(record))
	entry = fmt.Appendf(entry, `%s{"etag":%s,"record":%s}`, separator, quoted, record)
	if p.size+len(entry)+len(snapshotEnd) > p.room {
		return false
	}
	p.write(entry)
	p.n++
	return true
}

// Len is how many records were added.
func (p *SnapshotPacker) Len() int { return p.n }

// Close returns the object. No part of its generation comes after the last one.
func (p *SnapshotPacker) Close(last bool) []byte {
	p.write(fmt.Appendf(nil, "\n],\"last\":%t}\n", last))
	_ = p.zip.Close() // a buffer takes everything
	return p.buf.Bytes()
}

func (p *SnapshotPacker) write(data []byte) {
	p.size += len(data)
	_, _ = p.zip.Write(data) // a buffer takes everything
}

// DecodeSnapshotPart reads the object found under k. Errors are of type
// [*DocumentError]. A record in it that this version cannot read is left out:
// what is wrong with it shows at its own object.
func DecodeSnapshotPart(k string, data []byte) (SnapshotPart, error) {
	part, err := decodeSnapshot(k, data)
	if err != nil {
		return SnapshotPart{}, documentError(k, err)
	}
	return part, nil
}

func decodeSnapshot(k string, data []byte) (SnapshotPart, error) {
	if len(data) > MaxSnapshotPart {
		return SnapshotPart{}, fmt.Errorf("it has more than %d bytes", MaxSnapshotPart)
	}
	text, err := unzip(data)
	if err != nil {
		return SnapshotPart{}, err
	}
	r := snapshotReader{dec: json.NewDecoder(bytes.NewReader(text))}
	r.part.Records = make([]SnapshotRecord, 0, len(text)/usualEntry)
	if err := r.read(); err != nil {
		return SnapshotPart{}, err
	}
	return r.part, r.check(k)
}

// usualEntry is the size of a common entry in bytes: records are large to move.
const usualEntry = 1000

// unzip returns what is compressed in data, once its checksum is right.
func unzip(data []byte) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("it is not compressed by gzip: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(unzipped, MaxSnapshotPart+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxSnapshotPart {
		return nil, fmt.Errorf("it has more than %d bytes unpacked", MaxSnapshotPart)
	}
	return text, nil
}

// snapshotReader reads a part member by member: each record is taken apart
// where it stands.
type snapshotReader struct {
	dec  *json.Decoder
	head snapshotHead
	part SnapshotPart
}

func (r *snapshotReader) read() error {
	if err := r.expect(json.Delim('{')); err != nil {
		return err
	}
	for r.dec.More() {
		name, err := r.dec.Token()
		if err != nil {
			return err
		}
		if err := r.member(name); err != nil {
			return fmt.Errorf("member %v: %w", name, err)
		}
	}
	if err := r.expect(json.Delim('}')); err != nil {
		return err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("it does not end after its object"), err)
	}
	return nil
}

func (r *snapshotReader) member(name json.Token) error {
	switch name {
	case "v":
		return r.version()
	case "term":
		return r.dec.Decode(&r.part.Term)
	case "shard":
		return r.dec.Decode(&r.head.Shard)
	case "generation":
		return r.dec.Decode(&r.head.Generation)
	case "part":
		return r.dec.Decode(&r.head.Part)
	case "last":
		return r.dec.Decode(&r.part.Last)
	case "records":
		return r.records()
	}
	var other json.RawMessage
	return r.dec.Decode(&other)
}

// version comes first in a part: what follows in a newer one need not look as
// it does here.
func (r *snapshotReader) version() error {
	if err := r.dec.Decode(&r.head.V); err != nil {
		return err
	}
	if r.head.V > version {
		return fmt.Errorf("%w: v is %d, the newest known is %d", ErrNewer, r.head.V, version)
	}
	return nil
}

func (r *snapshotReader) records() error {
	if err := r.expect(json.Delim('[')); err != nil {
		return err
	}
	for r.dec.More() {
		var entry struct {
			ETag   string          `json:"etag"`
			Record json.RawMessage `json:"record"`
		}
		if err := r.dec.Decode(&entry); err != nil {
			return err
		}
		rec, err := decodeRecord(entry.Record)
		if err == nil && entry.ETag != "" && rec.check(rec.Key()) == nil {
			r.part.Records = append(r.part.Records, SnapshotRecord{entry.ETag, rec})
		}
	}
	return r.expect(json.Delim(']'))
}

func (r *snapshotReader) expect(want json.Delim) error {
	got, err := r.dec.Token()
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%v stands where %v is wanted", got, want)
	}
	return nil
}

// check reports why what was read is not the part that may stand under k.
func (r *snapshotReader) check(k string) error {
	shard, generation, part, err := ParseSnapshotKey(k)
	switch {
	case err != nil:
		return err
	case r.head.V < 1:
		return errors.New("member v is not a version")
	case r.head.Shard != shard:
		return mismatch("shard", r.head.Shard, shard)
	case r.head.Generation != generation || r.head.Part != part:
		return fmt.Errorf("it is part %d of generation %d, and the key says part %d of %d", r.head.Part, r.head.Generation, part, generation)
	}
	for i := range r.part.Records {
		if of := r.part.Records[i].Record.Shard; of != shard {
			return mismatch("shard of a record", of, shard)
		}
	}
	return nil
}
