package lease

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Version is the version of the lock document that this package reads and writes.
const Version = 1

// Bounds of a lease. Below the first, a slow call to the store costs leadership.
const (
	MinLease = 5 * time.Second
	MaxLease = time.Hour
)

// Document is the content of a lock: who leads, under which term, and where it
// can be reached.
type Document struct {
	V            int       `json:"v"`
	LeaderID     string    `json:"leaderID"`
	LeaderAddr   string    `json:"leaderAddr"` // host:port of the election listener
	Addrs        Addrs     `json:"addrs"`
	LastUpdated  time.Time `json:"lastUpdated"` // by the leader's wall clock: for people, and to tell versions apart
	Term         uint64    `json:"term"`        // grows with each acquisition, never with a renewal; ≥ 1
	LeaseSeconds int       `json:"leaseSeconds"`
	Released     bool      `json:"released"` // given up in order: may be taken at once
}

// Addrs are the addresses, host:port, that a leader advertises for its services.
type Addrs struct {
	Registration string `json:"registration"`
	Operator     string `json:"operator"`
	Agent        string `json:"agent"`
}

// Lease returns how long the document must stay unchanged before it is stale.
func (d Document) Lease() time.Duration {
	return time.Duration(d.LeaseSeconds) * time.Second
}

// SameVersion reports whether both are one version of the lock: a leader never
// writes two with the same time.
func (d Document) SameVersion(o Document) bool {
	return d.LeaderID == o.LeaderID && d.Term == o.Term && d.Released == o.Released && d.LastUpdated.Equal(o.LastUpdated)
}

// Encode returns the stored form of the document. Times are UTC with
// milliseconds.
func (d Document) Encode() ([]byte, error) {
	d.V = Version
	d.LastUpdated = d.LastUpdated.UTC().Truncate(time.Millisecond)
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode lock document: %w", err)
	}
	return data, nil
}

// Decode reads a stored document. Fields it does not know are ignored; whatever
// else is amiss, a newer version included, gives an error that matches
// ErrQuarantined.
func Decode(data []byte) (Document, error) {
	d, err := decode(data)
	if err != nil {
		return Document{}, fmt.Errorf("%w: %w", ErrQuarantined, err)
	}
	return d, nil
}

func decode(data []byte) (Document, error) {
	var version struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return Document{}, err
	}
	if version.V != Version {
		return Document{}, fmt.Errorf("v: it is %d, this server knows %d", version.V, Version)
	}
	var d Document
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&d); err != nil {
		return Document{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Document{}, errors.New("something follows the document")
	}
	return d, d.validate()
}

func (d Document) validate() error {
	var errs []error
	if d.LeaderID == "" {
		errs = append(errs, errors.New("leaderID: it is empty"))
	}
	if d.Term == 0 {
		errs = append(errs, errors.New("term: it is 0"))
	}
	if l := d.LeaseSeconds; l < int(MinLease/time.Second) || l > int(MaxLease/time.Second) {
		errs = append(errs, fmt.Errorf("leaseSeconds: %d is not between %v and %v", l, MinLease, MaxLease))
	}
	return errors.Join(errs...)
}
