// Package leak finds secrets where they must not be.
//
// A [Search] is given markers, which are secrets that a test knows, and then places:
// files, directories, the titles of processes, whatever a program prints. It finds a
// marker as it is and in the forms in which programs write bytes: base64 of both
// alphabets, wherever in a longer text the marker stands; hexadecimal in both cases;
// decimal lists as fmt prints them; with the escapes of JSON and of Go; and all of
// that in what is compressed with gzip, at any depth.
//
// It does not find what is encrypted or hashed, which is the point, nor a marker that
// a file format has torn apart or that was compressed in another way.
package leak
