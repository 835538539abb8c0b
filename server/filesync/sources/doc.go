// Package sources makes the contents of the files that machines get: it renders
// those of kind env, json and string, and reads those of kind secret and
// storage. Certificates are not its business.
//
// What is the same for many machines is made once. A text that does not look
// at the instance is rendered once for each configuration; a secret or an
// object is read once for all machines that are sent it within a minute, and
// [Sources.Refresh] finds out what has changed since.
//
// Contents are secret. They stand in memory for as long as they may be needed,
// and in no error: errors name the file, its source and what is wrong.
package sources
