// Checks checkpoints and proofs with the packages of Go's checksum database, for OpenProofTests.
//
// Each line of standard input is a question in JSON, and each line of output its answer: "accepted", or "refused: " and
// why. Nothing here computes a hash or parses a note by itself.
package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type question struct {
	// note, record, tree or cosignature
	Check string
	// The verifier's key of the log.
	Key string
	// A checkpoint; for tree the later one.
	Note string
	// For tree: the earlier checkpoint, and the hashes between them.
	Old    string
	Hashes []string
	// For record: a tlog-proof, and the digest that is the entry, in hexadecimal digits.
	Proof  string
	Digest string
	// For cosignature: the verifier's key of the witness.
	Witness string
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q question
		err := json.Unmarshal(lines.Bytes(), &q)
		if err == nil {
			err = answer(q)
		}
		if err != nil {
			fmt.Println("refused:", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("accepted")
		}
	}
}

func answer(q question) error {
	switch q.Check {
	case "note":
		_, err := open(q.Note, q.Key)
		return err
	case "record":
		return checkRecord(q)
	case "tree":
		later, err := open(q.Note, q.Key)
		if err != nil {
			return err
		}
		earlier, err := open(q.Old, q.Key)
		if err != nil {
			return err
		}
		hashes, err := parseHashes(q.Hashes)
		if err != nil {
			return err
		}
		return tlog.CheckTree(hashes, later.N, later.Hash, earlier.N, earlier.Hash)
	case "cosignature":
		return checkCosignature(q)
	}
	return errors.New("unknown check")
}

// open verifies a checkpoint's signature and returns what it says.
func open(text, key string) (tlog.Tree, error) {
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return tlog.Tree{}, err
	}
	opened, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		return tlog.Tree{}, err
	}
	origin, rest, _ := strings.Cut(opened.Text, "\n")
	if origin != verifier.Name() {
		return tlog.Tree{}, errors.New("another origin")
	}
	// The form of a checkpoint is that of the checksum database's, under another first line.
	return tlog.ParseTree([]byte("go.sum database tree\n" + rest))
}

func checkRecord(q question) error {
	head, checkpoint, found := strings.Cut(q.Proof, "\n\n")
	lines := strings.Split(head, "\n")
	if !found || len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" || !strings.HasPrefix(lines[1], "index ") {
		return errors.New("no proof")
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	if err != nil {
		return err
	}
	hashes, err := parseHashes(lines[2:])
	if err != nil {
		return err
	}
	tree, err := open(checkpoint, q.Key)
	if err != nil {
		return err
	}
	digest, err := hex.DecodeString(q.Digest)
	if err != nil {
		return err
	}
	return tlog.CheckRecord(hashes, tree.N, tree.Hash, index, tlog.RecordHash(digest))
}

func parseHashes(texts []string) ([]tlog.Hash, error) {
	var hashes []tlog.Hash
	for _, text := range texts {
		hash, err := tlog.ParseHash(text)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, hash)
	}
	return hashes, nil
}

// witness verifies cosignatures, which the package note knows only by this interface.
type witness struct {
	name string
	id   uint32
	key  ed25519.PublicKey
}

func (w witness) Name() string    { return w.name }
func (w witness) KeyHash() uint32 { return w.id }
func (w witness) Verify(text, signature []byte) bool {
	if len(signature) != 8+ed25519.SignatureSize {
		return false
	}
	var signed bytes.Buffer
	fmt.Fprintf(&signed, "cosignature/v1\ntime %d\n%s", binary.BigEndian.Uint64(signature), text)
	return ed25519.Verify(w.key, signed.Bytes(), signature[8:])
}

func checkCosignature(q question) error {
	parts := strings.SplitN(q.Witness, "+", 3)
	if len(parts) != 3 {
		return errors.New("no key")
	}
	id, err := strconv.ParseUint(parts[1], 16, 32)
	if err != nil {
		return err
	}
	key, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(key) != 33 || key[0] != 4 {
		return errors.New("no key of a witness")
	}
	_, err = note.Open([]byte(q.Note), note.VerifierList(witness{parts[0], uint32(id), key[1:]}))
	return err
}
