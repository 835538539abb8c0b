// Package tokens keeps who may call the HTTP API without a client certificate: a file of
// bearer tokens, each for one tenant and for reading or writing.
//
// The file holds hashes, so whoever reads it can call nothing. A token is seen once, by
// whoever makes it. A [File] that is asked sees a change of the file with the next call: to
// revoke a token is to remove it there.
package tokens

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"nstance.dev/protos/identity"
)

// Prefix begins every token, so that one that has leaked is known for what it is.
const Prefix = "nst_"

// Access is what the holder of a token may do.
type Access string

// The kinds of access.
const (
	Read  Access = "read"
	Write Access = "write" // and read
)

// Errors of a token that opens nothing.
var (
	ErrUnknown = errors.New("the token is not known")
	ErrExpired = errors.New("the token has expired")
)

// Token is what is known of one; the token itself is not.
type Token struct {
	ID      string    `json:"id"`
	Tenant  string    `json:"tenant"`
	Access  Access    `json:"access"`
	Note    string    `json:"note,omitempty"` // for people
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	SHA256  string    `json:"sha256"` // of the token, hexadecimal
}

// Check says everything that is wrong with a token that is to be made at a moment.
func (t Token) Check(now time.Time) error {
	t.Created = now
	return t.check()
}

// check says everything that is wrong with a token.
func (t Token) check() error {
	var errs []error
	if err := identity.ValidateName(t.Tenant); err != nil {
		errs = append(errs, fmt.Errorf("tenant: %w", err))
	}
	if t.Access != Read && t.Access != Write {
		errs = append(errs, fmt.Errorf("access: %q must be one of read, write", t.Access))
	}
	if len(t.Note) > 200 {
		errs = append(errs, fmt.Errorf("note: it has %d bytes, at most 200 are kept", len(t.Note)))
	}
	if !t.Expires.After(t.Created) {
		errs = append(errs, errors.New("expires: it must be later than now"))
	}
	return errors.Join(errs...)
}

// document is the file.
type document struct {
	Tokens []Token `json:"tokens"`
}

// File is a file of tokens. It is safe for concurrent use.
type File struct {
	path string
	now  func() time.Time

	mu      sync.Mutex
	seen    fs.FileInfo      // of the version that was read; nil: there was none, or it is read each time
	known   map[string]Token // by hash
	problem error            // of the last look
}

// Open returns the file at a path, which need not exist yet. A nil now means time.Now.
func Open(path string, now func() time.Time) *File {
	if now == nil {
		now = time.Now
	}
	return &File{path: path, now: now}
}

// hashOf is a token as the file has it.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Create adds a token and returns it, which nobody can later. Tenant, Access, Note and
// Expires of t count.
func (f *File) Create(t Token) (token string, made Token, err error) {
	var secret [32]byte
	var id [6]byte
	_, _ = rand.Read(secret[:]) // it never fails
	_, _ = rand.Read(id[:])
	token = Prefix + base64.RawURLEncoding.EncodeToString(secret[:])
	t.ID, t.Created, t.SHA256 = "tok"+hex.EncodeToString(id[:]), f.now().UTC().Truncate(time.Second), hashOf(token)
	t.Expires = t.Expires.UTC().Truncate(time.Second)
	if err := t.check(); err != nil {
		return "", Token{}, err
	}
	err = f.change(func(d *document) error {
		d.Tokens = append(d.Tokens, t)
		return nil
	})
	return token, t, err
}

// List returns all tokens, those that have expired included, in the order in which they
// were made.
func (f *File) List() ([]Token, error) {
	d, err := f.read()
	slices.SortStableFunc(d.Tokens, func(a, b Token) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
	return d.Tokens, err
}

// Revoke removes tokens. None is removed where one is not known.
func (f *File) Revoke(ids ...string) error {
	return f.change(func(d *document) error {
		for _, id := range ids {
			at := slices.IndexFunc(d.Tokens, func(t Token) bool { return t.ID == id })
			if at < 0 {
				return f.unknown(id)
			}
			d.Tokens = slices.Delete(d.Tokens, at, at+1)
		}
		return nil
	})
}

// Known says of ids whether all of them are those of tokens.
func (f *File) Known(ids ...string) error {
	d, err := f.read()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if !slices.ContainsFunc(d.Tokens, func(t Token) bool { return t.ID == id }) {
			return f.unknown(id)
		}
	}
	return nil
}

func (f *File) unknown(id string) error {
	return fmt.Errorf("token %s: no token of that id is in %s", id, f.path)
}

// Check returns what a token opens. Errors match [ErrUnknown] or [ErrExpired], or say why
// the file can't be read: then nobody is let in.
func (f *File) Check(token string) (Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	f.look()
	if f.problem != nil {
		return Token{}, f.problem
	}
	hash := hashOf(token)
	t, ok := f.known[hash]
	if !ok || subtle.ConstantTimeCompare([]byte(t.SHA256), []byte(hash)) != 1 {
		return Token{}, ErrUnknown
	}
	if !now.Before(t.Expires) {
		return Token{}, ErrExpired
	}
	return t, nil
}

// look reads the file again if it is another one. It needs mu.
func (f *File) look() {
	info, err := os.Stat(f.path)
	if err != nil {
		info = nil // reading it says why
	}
	if f.problem == nil && f.known != nil && same(f.seen, info) {
		return
	}
	d, err := f.read()
	if f.problem = err; err != nil {
		return
	}
	f.known, f.seen = map[string]Token{}, info
	if info != nil && f.now().Sub(info.ModTime()) < settled {
		f.seen = nil // another change within one tick of its clock might look the same
	}
	for _, t := range d.Tokens {
		f.known[t.SHA256] = t
	}
}

// settled is how old a change must be before the file is told apart from others by its time.
const settled = time.Second

// same reports whether both are of one version of the file.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// read returns the file; one that does not exist is empty.
func (f *File) read() (d document, err error) {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return document{}, nil
	}
	if err != nil {
		return document{}, fmt.Errorf("read tokens: %w", err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return document{}, fmt.Errorf("read tokens: %s: %w", f.path, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return document{}, fmt.Errorf("read tokens: %s: there is more after the end of the object, at byte %d", f.path, decoder.InputOffset())
	}
	for i, t := range d.Tokens {
		if err := t.check(); err != nil || len(t.SHA256) != 64 || t.ID == "" {
			return document{}, fmt.Errorf("read tokens: %s: token %d: %w", f.path, i+1, errors.Join(err, errIncomplete(t)))
		}
	}
	return d, nil
}

func errIncomplete(t Token) error {
	if len(t.SHA256) != 64 || t.ID == "" {
		return errors.New("it lacks its id or its hash")
	}
	return nil
}

// change writes the file anew. Two that change it at once wait for each other.
func (f *File) change(edit func(*document) error) error {
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	d, err := f.read()
	if err != nil {
		return err
	}
	if err := edit(&d); err != nil {
		return err
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(f.path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	return nil
}

// lockLimit bounds the wait for somebody else who changes the file, and lockPause is how long
// it is until the next look.
const (
	lockLimit = 5 * time.Second
	lockPause = 20 * time.Millisecond
)

// lock takes the lock of the file, which ends with the process that has it.
func (f *File) lock() (unlock func(), err error) {
	l := flock.New(f.path+".lock", flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), lockLimit)
	defer cancel()
	_, err = l.TryLockContext(ctx, lockPause)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("lock tokens: another process has had %s for %v: it is changing the tokens; see which with fuser", l.Path(), lockLimit)
	case err != nil:
		return nil, fmt.Errorf("lock tokens: %w", err)
	}
	return func() { _ = l.Unlock() }, nil
}
