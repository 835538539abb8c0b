// Package download fetches files over HTTP whose digest is known before.
//
// [Get] completes a file: what an earlier call, or an earlier process, has written of it is
// kept and the rest is asked for. It returns nil only when the file as a whole has the
// digest. A server that is slow, stops, breaks off or answers with an error that may pass is
// asked again, with pauses that grow up to half a minute; one that refuses, or that has
// something else under the address, is not.
//
// Connections speak TLS 1.3. A plain http address is accepted where the caller admits it,
// since the digest protects the content, but never after https in a redirect. Errors name
// addresses without their queries, in which storage services put signatures.
//
// What goes into a file that was not completed remains there; to remove it is the caller's.
package download
