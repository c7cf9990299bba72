/// Sends requests to OCSP responders.
///
/// Not X509's `OCSPRequester`, whose result type is opaque to other modules: we could neither limit the size of a
/// response nor distinguish an unavailable responder from a response of "revoked".
package protocol OCSPTransport: Sendable {
    /// Returns the body of the responder's response without interpreting it.
    ///
    /// The implementation needs no deadline: the call is cancelled, and abandoned if it does not end.
    ///
    /// - Parameters:
    ///   - request: DER of an OCSP request.
    ///   - address: The responder's URI as spelled in the certificate.
    ///   - bytesMax: Maximum length of the response. Throw instead of reading more.
    /// - Throws: Any error if there is no response.
    func answer(to request: [UInt8], at address: String, bytesMax: Int) async throws -> [UInt8]
}
