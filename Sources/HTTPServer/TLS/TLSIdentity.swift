import Foundation
import Logging
import NIOSSL
import Synchronization

/// The current certificate of a listener: the last valid one that the files contained.
///
/// A reload applies to new connections; existing ones keep their certificate.
package final class TLSIdentity: Sendable {
    private struct State {
        var context: NIOSSLContext
        /// The stamps of the files at the last reload, successful or not.
        var stamp: [FileStamp]
    }

    package let files: TLSFiles
    private let state: Mutex<State>
    private let logger: Logger

    /// - Throws: ``TLSFileError`` if the files are invalid, since there is no previous certificate to keep.
    package init(files: TLSFiles, logger: Logger) throws(TLSFileError) {
        self.files = files
        self.logger = logger
        let stamp = Self.stamp(files)
        state = Mutex(State(context: try Self.context(files), stamp: stamp))
    }

    var context: NIOSSLContext { state.withLock { $0.context } }

    /// Reloads the files if they changed. Invalid files are logged once, and the previous certificate stays in use.
    ///
    /// - Parameter isForced: Reload even if the files are unchanged.
    package func reload(isForced: Bool = false) {
        let stamp = Self.stamp(files)
        guard state.withLock({ isForced || $0.stamp != stamp }) else { return }
        do throws(TLSFileError) {
            let context = try Self.context(files)
            state.withLock { $0 = State(context: context, stamp: stamp) }
            logger.notice("certificate reloaded", metadata: ["file": "\(files.certificate)"])
        } catch {
            state.withLock { $0.stamp = stamp }
            logger.error(
                "certificate reload failed, keeping the previous one", metadata: ["error": "\(error)"])
        }
    }

    private static func context(_ files: TLSFiles) throws(TLSFileError) -> NIOSSLContext {
        let chain: [NIOSSLCertificate]
        do {
            chain = try NIOSSLCertificate.fromPEMFile(files.certificate)
        } catch {
            throw TLSFileError(file: files.certificate, problem: "is not a PEM certificate or cannot be read")
        }
        let key: NIOSSLPrivateKey
        do {
            key = try NIOSSLPrivateKey(file: files.key, format: .pem)
        } catch {
            throw TLSFileError(file: files.key, problem: "is not a PEM private key or cannot be read")
        }
        guard !chain.isEmpty else { throw TLSFileError(file: files.certificate, problem: "contains no certificate") }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        do {
            return try NIOSSLContext(configuration: configuration)
        } catch {
            // Both are well-formed, so they do not match.
            throw TLSFileError(file: files.key, problem: "is not the key of \(files.certificate)")
        }
    }

    private static func stamp(_ files: TLSFiles) -> [FileStamp] {
        [FileStamp(files.certificate), FileStamp(files.key)]
    }
}

/// An invalid certificate or key; the description is one line that names the file.
package struct TLSFileError: Error, CustomStringConvertible {
    let file: String
    let problem: String

    package var description: String { "\(file) \(problem)" }
}
