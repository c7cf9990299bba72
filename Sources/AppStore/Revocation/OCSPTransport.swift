/// Carries requests to OCSP responders.
///
/// Not X509's `OCSPRequester`, since an answer in that form cannot be told from an error by anyone but X509: there
/// would be no bound on its size, and a responder that is away would look like one that says "revoked".
package protocol OCSPTransport: Sendable {
    /// Returns the body of the responder's answer, whatever it holds.
    ///
    /// Needs no deadline of its own; it is cancelled, and abandoned if it does not end.
    ///
    /// - Parameters:
    ///   - request: DER of an OCSP request.
    ///   - address: The responder's URI as the certificate spells it.
    ///   - bytesMax: Most bytes to take. Throw rather than read on.
    /// - Throws: Anything, if there is no answer.
    func answer(to request: [UInt8], at address: String, bytesMax: Int) async throws -> [UInt8]
}
