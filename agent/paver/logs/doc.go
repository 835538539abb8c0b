// Package logs makes what operation collectLogs hands over of the journals of a host: text of a bounded size, without what
// looks like a secret, compressed.
//
// A [Section] is one journal. Its lines of JSON, as journalctl writes them, come in by Write; it keeps the end of them where
// there are more than it may keep, and counts the rest. [Pack] compresses sections, and leaves out their oldest entries until
// the whole is small enough.
//
// What is masked ([Mask]): the secrets that the caller knows; the names and forms that secrets usually have (private keys,
// tokens, passwords, keys of clouds, logins in addresses); text that is encoded in base64; and all that cloud-init says, because
// user data are among it. A mask cannot know every secret: who may read logs is decided where they are stored.
//
// Masks of servers and of support bundles have rules of their own: package server/masking says why.
//
// It leaves to others to run journalctl, and to store anything.
package logs
