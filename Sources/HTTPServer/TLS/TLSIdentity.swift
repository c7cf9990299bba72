import Foundation
import Logging
import NIOSSL
import Synchronization

/// The certificate that a listener shows, as the files had it last when they could be used.
///
/// Connections that are made after a reload get the new one; those that are there stay as they are.
package final class TLSIdentity: Sendable {
    private struct State {
        var context: NIOSSLContext
        /// Of the files when they were last looked into, whatever came of it.
        var stamp: [FileStamp]
    }

    package let files: TLSFiles
    private let state: Mutex<State>
    private let logger: Logger

    /// - Throws: ``TLSFileError`` when there is nothing to start with.
    package init(files: TLSFiles, logger: Logger) throws(TLSFileError) {
        self.files = files
        self.logger = logger
        let stamp = Self.stamp(files)
        state = Mutex(State(context: try Self.context(files), stamp: stamp))
    }

    var context: NIOSSLContext { state.withLock { $0.context } }

    /// Reads the files if they changed since they were read. What cannot be used is told in one line, once, and the
    /// certificate before it goes on.
    ///
    /// - Parameter isForced: Reads them in any case.
    package func reload(isForced: Bool = false) {
        let stamp = Self.stamp(files)
        guard state.withLock({ isForced || $0.stamp != stamp }) else { return }
        do throws(TLSFileError) {
            let context = try Self.context(files)
            state.withLock { $0 = State(context: context, stamp: stamp) }
            logger.notice("the certificate was read anew", metadata: ["file": "\(files.certificate)"])
        } catch {
            state.withLock { $0.stamp = stamp }
            logger.error(
                "the new certificate cannot be used, the one before it goes on", metadata: ["error": "\(error)"])
        }
    }

    private static func context(_ files: TLSFiles) throws(TLSFileError) -> NIOSSLContext {
        let chain: [NIOSSLCertificate]
        do {
            chain = try NIOSSLCertificate.fromPEMFile(files.certificate)
        } catch {
            throw TLSFileError(file: files.certificate, problem: "is no certificate in PEM, or cannot be read")
        }
        let key: NIOSSLPrivateKey
        do {
            key = try NIOSSLPrivateKey(file: files.key, format: .pem)
        } catch {
            throw TLSFileError(file: files.key, problem: "is no private key in PEM, or cannot be read")
        }
        guard !chain.isEmpty else { throw TLSFileError(file: files.certificate, problem: "holds no certificate") }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        do {
            return try NIOSSLContext(configuration: configuration)
        } catch {
            // Each of them is well-formed, so what is left is that they do not belong together.
            throw TLSFileError(file: files.key, problem: "is not the key of \(files.certificate)")
        }
    }

    private static func stamp(_ files: TLSFiles) -> [FileStamp] {
        [FileStamp(files.certificate), FileStamp(files.key)]
    }
}

/// A certificate or key that cannot be used, in one line that names the file.
package struct TLSFileError: Error, CustomStringConvertible {
    let file: String
    let problem: String

    package var description: String { "\(file) \(problem)" }
}
