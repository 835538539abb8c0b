package cache

import (
	"time"

	"nstance.dev/protos/identity"
)

// fileRow is what a row holds of a [File] beside its key.
type fileRow struct {
	lastModified, sentAt int64 // milliseconds; 0: zero
	err                  string
	attempts             int
}

func rowOf(f File) fileRow {
	return fileRow{lastModified: millis(f.LastModified), sentAt: millis(f.SentAt), err: f.Error, attempts: f.Attempts}
}

func (r fileRow) file(id identity.ID, name string) File {
	return File{
		Instance: id, Name: name, LastModified: moment(r.lastModified), Error: r.err, SentAt: moment(r.sentAt), Attempts: r.attempts,
	}
}

// publicKey is what a row holds of a public key beside its name.
type publicKey struct {
	pem        string
	receivedAt time.Time
}
