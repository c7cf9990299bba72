import AppStore
import ArgumentParser
import Encoding
import EventLog
import Server
import Verification

struct VerifyEvidence: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify-evidence",
        abstract: "Verify a file of evidence, without a database and without a network.",
        discussion: """
            Checks that a key signed the checkpoint or head, that the proof of the tree or the hash chain leads from the \
            event to it, that the body has the digest of the event, the body's signatures up to a trusted root, as of the \
            time of signing, and that the signed OCSP responses in the file, if any, say that the certificates were good \
            when the event was received. Prints what is proven. Exits with status 1 if something is not, and with 65 if \
            the file is not evidence.
            """)

    @Argument(help: "The file, or - for standard input.")
    var file: String

    @Option(
        help: ArgumentHelp(
            "The operator's public key, from elsewhere than the file; 64 hexadecimal digits. Repeatable.",
            valueName: "key"))
    var publicKey: [String]

    @Option(
        help: ArgumentHelp(
            "The key of a witness that must have cosigned the checkpoint: name+id+key. Repeatable.", valueName: "key"))
    var witnessKey: [String] = []

    @Option(
        help: ArgumentHelp(
            "A root certificate to trust in addition to Apple's, as for `serve`. Repeatable.", valueName: "file"))
    var root: [String] = []

    func run() async throws {
        try await reportingFailures {
            let flags = settings([(["root", "files"], root.isEmpty ? nil : root.joined(separator: ","))])
            let settings = Settings(flags: flags)
            let keys = try settings.headPublicKeys(publicKey)
            let witnesses = try witnessKey.map { try Settings.witnessKey($0) }
            guard let bytes = InputFile.read(file) else {
                printError("\(file): \(InputFile.unreadable)")
                throw ExitCode.dataError
            }
            guard let document = try? JSONDocument(bytes), let evidence = EvidenceFile(json: document.root) else {
                printError("\(file): expected evidence as `subledger evidence` writes it")
                throw ExitCode.dataError
            }
            let verifier = EvidenceVerifier(
                signatures: SignatureVerifier(roots: try settings.roots()), keys: keys, witnesses: witnesses)
            let responses: [CertificateChain.Part: VerifiedOCSPResponse]
            do throws(EvidenceProblem) {
                responses = try await verifier.verify(evidence)
            } catch {
                print("not verified: \(error)")
                throw ExitCode.failure
            }
            for line in evidence.summary(responses, witnesses) { print(line) }
        }
    }
}

extension EvidenceFile {
    /// What verified evidence proves, line by line.
    fileprivate func summary(
        _ responses: [CertificateChain.Part: VerifiedOCSPResponse], _ witnesses: [NoteKey]
    ) -> [String] {
        let isSigned = event.chainId != nil
        let lastVerdict = verdicts.last.map { ", \($0.verdict) by the check of \($0.decidedAt)" } ?? ""
        let ocsp = CertificateChain.Part.allCases.map { part in
            responses[part].map { "\(part) certificate good from \($0.thisUpdate) to \($0.nextUpdate)" }
                ?? "no response about the \(part) certificate included"
        }
        return [
            "verified: \(stream.app), \(stream.environment.rawValue), position \(position)",
            "received: \(receivedAt), as \(event.source), according to the operator",
            isSigned
                ? "origin: signed, up to a trusted root, as of the time of signing"
                : "origin: not signed; only what the operator signed proves it",
            "revocation: "
                + (event.revocation.map { "\($0) when received\(lastVerdict), according to the operator" } ?? "none"),
            "ocsp: "
                + (responses.isEmpty
                    ? "no response included" : "signed responses of the issuers: \(ocsp.joined(separator: ", "))"),
        ] + path.summary(witnesses)
    }
}

extension EvidenceFile.Path {
    fileprivate func summary(_ witnesses: [NoteKey]) -> [String] {
        switch self {
        case .chain(let path): return ["head: position \(path.head.head.position), signed \(path.head.signedAt)"]
        case .tree(let proof):
            let checkpoint = proof.checkpoint.checkpoint
            let cosigned = witnesses.compactMap { witness in
                proof.checkpoint.note.cosignatureTime(of: witness).map {
                    "witness: \(witness.name), at \($0)"
                }
            }
            return [
                "checkpoint: \(checkpoint.origin.text), size \(checkpoint.size), by a proof of \(proof.hashes.count) hashes"
            ] + cosigned
        }
    }
}
