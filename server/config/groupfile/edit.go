package groupfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
)

// MaxBytes is how large a group file may be: [Decode] reads no larger
// one, and [Encode] writes none.
const MaxBytes = jsonc.MaxBytes

// ownRoom is what the server's own edits have of the group file, whatever tenants
// have put into it: its term, the copies of static groups and templates, what it unlocks.
const ownRoom = 1 << 20

// MaxTenantBytes is what all tenants together may have of the group file.
const MaxTenantBytes = MaxBytes - ownRoom

// ErrTooLarge says that a group file would be larger than [MaxBytes].
var ErrTooLarge = fmt.Errorf("the group file would have more than %d MiB; delete groups, or shorten their vars and args", MaxBytes>>20)

// edited is what a file was before the edit that is under way.
type edited struct {
	frame   File // shares everything with the file
	entries map[document.GroupKey]*Entry
}

func (e *edited) note(key document.GroupKey, old *Entry) {
	if e == nil {
		return
	}
	if _, noted := e.entries[key]; !noted {
		e.entries[key] = old
	}
}

// Attempt makes an edit of the file that tenant asks for, and keeps it only if the
// next leader can read what it leaves (S24): each entry that it has set, the pauses
// and the static copies decode again to the same, and the entries and pauses of the
// tenant take at most limit bytes, or no more than before. Else, and if the edit
// returns an error, the file is as it was. Errors are those of the edit, a
// [QuotaError], or an [InvalidError]. An empty tenant is the server itself, which
// no limit binds.
func (f *File) Attempt(tenant string, limit int, edit func() (changed bool, err error)) (bool, error) {
	had, err := f.bytesOf(tenant)
	if err != nil {
		return false, err
	}
	f.before = &edited{frame: *f, entries: map[document.GroupKey]*Entry{}}
	defer func() { f.before = nil }()
	changed, err := edit()
	if err == nil {
		err = f.checkEdit()
	}
	if err == nil && tenant != "" {
		err = f.checkBytes(tenant, had, limit)
	}
	if err != nil {
		f.undo()
		return false, err
	}
	return changed, nil
}

// Fits says whether the file can be written, and read again, by its size.
func (f *File) Fits() bool {
	_, err := Encode(f)
	return !errors.Is(err, ErrTooLarge)
}

// undo takes back the edit that is under way.
func (f *File) undo() {
	before := f.before
	f.before = nil
	for key, old := range before.entries {
		if old == nil {
			f.Remove(key.Tenant, key.Group)
		} else {
			f.Set(key.Tenant, key.Group, *old)
		}
	}
	f.Term, f.Paused, f.Static, f.Templates = before.frame.Term, before.frame.Paused, before.frame.Static, before.frame.Templates
}

// checkEdit says what of the edit that is under way could not be read again.
func (f *File) checkEdit() error {
	for key := range f.before.entries {
		if entry, ok := f.Group(key.Tenant, key.Group); ok {
			if err := CheckEntry(key, entry); err != nil {
				return err
			}
		}
	}
	if err := f.checkPauses(); err != nil {
		return err
	}
	if reflect.ValueOf(f.Static).Pointer() == reflect.ValueOf(f.before.frame.Static).Pointer() {
		return nil
	}
	if _, err := ReadBack(&File{Static: f.Static}); err != nil {
		return &InvalidError{Field: "groups", Msg: "the copy of the static groups could not be read again: " + err.Error()}
	}
	return nil
}

// CheckEntry says why an entry could not be read again where it would stand in the
// file, as an [InvalidError].
func CheckEntry(key document.GroupKey, entry Entry) error {
	alone := &File{}
	alone.Set(key.Tenant, key.Group, entry)
	again, err := ReadBack(alone)
	if err == nil {
		if same, _ := again.Group(key.Tenant, key.Group); !same.Equal(entry) {
			err = errors.New("it would read as something else")
		}
	}
	if err != nil {
		return &InvalidError{Field: "group", Msg: "it could not be read again: " + jsonc.ShortenTo(err.Error(), 300)}
	}
	return nil
}

// checkPauses reads the pauses that the edit under way has set.
func (f *File) checkPauses() error {
	type scope struct{ scope, tenant, group string }
	before := make(map[scope]Pause, len(f.before.frame.Paused))
	for _, p := range f.before.frame.Paused {
		before[scope{p.Scope, p.Tenant, p.Group}] = p
	}
	set := slices.DeleteFunc(slices.Clone(f.Paused), func(p Pause) bool {
		old, ok := before[scope{p.Scope, p.Tenant, p.Group}]
		return ok && reflect.DeepEqual(old, p)
	})
	if len(set) == 0 {
		return nil
	}
	if _, err := ReadBack(&File{Paused: set}); err != nil {
		return &InvalidError{Field: "pause", Msg: "it could not be read again: " + jsonc.ShortenTo(err.Error(), 300)}
	}
	return nil
}

// ReadBack reads a file as the next leader would.
func ReadBack(f *File) (*File, error) {
	data, err := Encode(f)
	if err != nil {
		return nil, err
	}
	return Decode("the group file", data)
}

// checkBytes compares what a tenant has after an edit with what it may have.
func (f *File) checkBytes(tenant string, had, limit int) error {
	has, err := f.bytesOf(tenant)
	if err == nil && has > limit && has > had {
		err = &QuotaError{Field: "bytes", Would: has, Limit: limit}
	}
	return err
}

// bytesOf is what the entries and pauses of a tenant take of the file; 0 for no
// tenant.
func (f *File) bytesOf(tenant string) (int, error) {
	if tenant == "" {
		return 0, nil
	}
	if f.texts == nil {
		f.texts = newGroupTexts(f.Groups)
	}
	n, err := f.texts[tenant].bytes(f.Groups[tenant])
	if err != nil {
		return 0, err
	}
	for _, p := range f.Paused {
		if p.Tenant == tenant {
			text, err := json.Marshal(p)
			if err != nil {
				return 0, err
			}
			n += len(text) + pauseIndent
		}
	}
	return n, nil
}

// What the file adds to the text of a member and to that of a pause, at most:
// separators, line breaks and spaces.
const (
	memberIndent = len(",\n      ")
	pauseIndent  = 100
)

// bytes is what the members take of the file.
func (m memberTexts) bytes(entries map[string]*Entry) (int, error) {
	n := 0
	for i := range m {
		if m[i].text == nil {
			if err := m[i].encode(entries[m[i].key]); err != nil {
				return 0, fmt.Errorf("group %s: %w", m[i].key, err)
			}
		}
		n += len(m[i].text) + memberIndent
	}
	return n, nil
}
