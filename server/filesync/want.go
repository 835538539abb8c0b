package filesync

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/filesync/delivery"
	"nstance.dev/server/filesync/sources"
	"nstance.dev/server/pki"
	"nstance.dev/server/render"
)

// readAgain is when a source is tried again whose version could not be read.
const readAgain = time.Minute

// wants makes what machines should have.
type wants struct {
	sources   *sources.Sources
	cache     *cache.Cache // of the agents' keys
	authority func() *pki.Authority
}

func newWants(opts Options) wants {
	return wants{
		sources:   sources.New(sources.Options{Objects: opts.Store, Secrets: opts.Secrets, From: opts.From, Now: opts.Now}),
		cache:     opts.Cache,
		authority: opts.Authority,
	}
}

// keyNames are the keys that the files want the agent to make, in order.
func (d Machine) keyNames() []string {
	var names []string
	for _, f := range d.Config.Files {
		if f.Kind == document.FileCertificate && f.Key != nil {
			names = append(names, keyName(f))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// keyName is the name of the key of a certificate, without the extension of its
// public half.
func keyName(f document.File) string { return strings.TrimSuffix(f.Key.Name, ".pub") }

// of makes what a machine should have. It is complete unless some source
// could not be read.
func (ws wants) of(ctx context.Context, id identity.ID, d Machine) (w delivery.Wanted, complete bool) {
	complete = true
	keys := ws.cache.PublicKeys(id)
	w.Hash = d.Config.RuntimeHash
	for name, f := range d.Config.Files {
		file := delivery.File{Name: name}
		if f.Kind == document.FileCertificate {
			file = certificateFile(name, f, d, keys)
			file.Until = ws.authority().CA().Certificate().NotAfter
		} else {
			version, err := ws.sources.Version(ctx, request(name, f, d))
			file.Version, complete = version, complete && err == nil
		}
		w.Files = append(w.Files, file)
	}
	slices.SortFunc(w.Files, func(a, b delivery.File) int { return cmp.Compare(a.Name, b.Name) })
	return w, complete
}

func request(name string, f document.File, d Machine) sources.Request {
	return sources.Request{Name: name, File: f, Hash: d.Config.RuntimeHash, Data: d.Data}
}

func certificateFile(name string, f document.File, d Machine, keys map[string]string) delivery.File {
	file := delivery.File{Name: name, Key: keyName(f)}
	key, known := keys[file.Key]
	if !known {
		file.NoKey = true
		return file
	}
	c := d.certificate(f)
	file.Life = c.TTL.Std()
	names, err := render.Certificate(name, c, d.Data)
	file.Version = certificateVersion(c.Kind, key, names, err)
	return file
}

// certificate is the template that a file of kind certificate names.
func (d Machine) certificate(f document.File) document.Certificate {
	key, _ := f.Template.(string)
	return d.Certificates[key]
}

// certificateVersion is another one for every other key and names. Where the
// names cannot be rendered it is that of the error: issuing it will fail, and
// say so.
func certificateVersion(kind, key string, names render.Names, err error) string {
	var uris []string
	for _, u := range names.URIs {
		uris = append(uris, u.String())
	}
	text, encodeErr := json.Marshal([]any{kind, key, names.Subject.ToRDNSequence().String(), names.DNS, names.IPs, uris, names.TTL, fmt.Sprint(err)})
	if encodeErr != nil {
		return encodeErr.Error() // of strings and numbers there is none
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}
