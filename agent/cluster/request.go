package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"nstance.dev/protos/binding"
)

// version is that of both formats.
const version = 1

// Bounds of the files, in bytes.
const (
	MaxRequest = 2 << 20 // a blob of the largest size in base64, and its Node
	MaxStatus  = 64 << 10
)

// Request asks for one action on one binding.
type Request struct {
	Version int            `json:"v"`
	Binding string         `json:"binding_id"`
	Action  binding.Action `json:"action"`
	Node    binding.Node   `json:"node,omitzero"`
	Blob    []byte         `json:"blob,omitempty"` // of a join alone
}

// requestSuffix ends the names of files with requests. Names that begin with a dot are files
// that are being written.
const requestSuffix = ".request"

// FileName is the name of the file with the request. A leave sorts behind the join of the same
// binding.
func (r Request) FileName() string { return r.Binding + "." + string(r.Action) + requestSuffix }

// IsRequest reports whether a file of this name is a request, though maybe no valid one.
func IsRequest(name string) bool {
	return strings.HasSuffix(name, requestSuffix) && !strings.HasPrefix(name, ".")
}

// Encode returns the content of the file.
func (r Request) Encode() ([]byte, error) {
	r.Version = version
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return data, nil
}

// ErrInvalid is matched by the errors of [DecodeRequest] and [DecodeStatus].
var ErrInvalid = errors.New("invalid file")

// DecodeRequest reads and checks a request.
func DecodeRequest(data []byte) (Request, error) {
	var r Request
	if err := decode(data, MaxRequest, &r); err != nil {
		return Request{}, fmt.Errorf("request: %w", err)
	}
	if r.Version != version {
		return Request{}, fmt.Errorf("request: %w: version %d is not known", ErrInvalid, r.Version)
	}
	if err := r.check(); err != nil {
		return Request{}, fmt.Errorf("request: %w: %w", ErrInvalid, err)
	}
	return r, nil
}

func (r Request) check() error {
	switch r.Action {
	case binding.Joining:
		return binding.Join{Binding: r.Binding, Blob: r.Blob, Node: r.Node}.Check()
	case binding.Leaving:
		if !binding.ValidID(r.Binding) {
			return errors.New("the binding has no valid name")
		}
		if len(r.Blob) > 0 || len(r.Node.Labels)+len(r.Node.Taints)+len(r.Node.StartupTaints) > 0 {
			return errors.New("to leave takes neither a blob nor a Node")
		}
		return nil
	}
	return errors.New("the action is not known")
}

// decode reads one JSON value of known members alone. Errors of the JSON package may quote what
// they read, so they are not passed on.
func decode(data []byte, most int, into any) error {
	if len(data) > most {
		return fmt.Errorf("%w: more than %d bytes", ErrInvalid, most)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if d.Decode(into) != nil {
		return fmt.Errorf("%w: not JSON of the expected form", ErrInvalid)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: there is more behind the value", ErrInvalid)
	}
	return nil
}
