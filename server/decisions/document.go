package decisions

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

// version is the newest form of the document that is understood.
const version = 1

// maxUnpacked bounds a document in bytes: a leader with very many groups stores fewer
// decisions of each.
const maxUnpacked = 16 << 20

// maxGaps is how many gaps are remembered.
const maxGaps = 10

// Gap is a time of which decisions may be missing: a leader ended without a hand-over.
type Gap struct {
	From time.Time `json:"from,omitzero"` // zero: nothing was stored before
	To   time.Time `json:"to"`
}

// document is what is stored. Whole says that its writer made no decision after it.
type document struct {
	V      int       `json:"v"`
	Term   uint64    `json:"term"`
	Shard  string    `json:"shard"`
	At     time.Time `json:"at"`
	Whole  bool      `json:"whole"`
	Gaps   []Gap     `json:"gaps,omitempty"`
	Groups []entry   `json:"groups"`
}

// entry is a group with its decisions, the oldest first.
type entry struct {
	Tenant    string     `json:"tenant"`
	Group     string     `json:"group"`
	Decisions []decision `json:"decisions"`
}

type decision struct {
	At         time.Time     `json:"at"`
	Action     string        `json:"action"`
	Instance   identity.ID   `json:"instance,omitempty"`
	Reason     string        `json:"reason,omitempty"`
	Cause      string        `json:"cause,omitempty"`
	Count      int           `json:"count"`
	BlockedBy  fleet.Blocker `json:"blocked_by,omitempty"`
	BlockedWhy string        `json:"blocked_why,omitempty"`
	NotBefore  time.Time     `json:"not_before,omitzero"`
}

func stored(d explain.Decision) decision {
	return decision{d.At, d.Action, d.Instance, d.Reason, d.Cause, d.Count, d.BlockedBy, d.BlockedWhy, d.NotBefore}
}

func (d decision) of(group fleet.GroupID) explain.Decision {
	return explain.Decision{
		Group: group, At: d.At, Action: d.Action, Instance: d.Instance, Reason: d.Reason, Cause: d.Cause, Count: d.Count,
		BlockedBy: d.BlockedBy, BlockedWhy: d.BlockedWhy, NotBefore: d.NotBefore,
	}
}

// encode packs a document. Where it is too large, every group keeps the newer half of
// its decisions, until it is not.
func (d document) encode(most int) ([]byte, error) {
	for {
		data, err := json.Marshal(d)
		if err != nil {
			return nil, err
		}
		if len(data) <= most {
			return pack(data)
		}
		smaller := false
		groups := make([]entry, len(d.Groups))
		for i, g := range d.Groups {
			n := len(g.Decisions)
			smaller = smaller || n > 0
			g.Decisions = g.Decisions[n-n/2:]
			groups[i] = g
		}
		if !smaller {
			return nil, fmt.Errorf("decisions of %d groups: larger than %d bytes", len(d.Groups), most)
		}
		d.Groups = groups
	}
}

func pack(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// decode reads the document of a shard.
func decode(shard string, data []byte) (document, error) {
	var d document
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return d, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if err != nil {
		return d, err
	}
	if len(plain) > maxUnpacked {
		return d, fmt.Errorf("larger than %d bytes", maxUnpacked)
	}
	if err := json.Unmarshal(plain, &d); err != nil {
		return document{}, err
	}
	switch {
	case d.V != version:
		return document{}, fmt.Errorf("version %d is not known", d.V)
	case d.Shard != shard:
		return document{}, errors.New("it is of another shard")
	}
	return d, nil
}
